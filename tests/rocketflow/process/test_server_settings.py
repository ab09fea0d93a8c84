"""TLS settings of NameServer and broker: RocketMQ's keys and file, and what is refused by name."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow.broker.settings import BrokerSettings, answered_settings_text, load_broker_settings, settings_text
from rocketflow.errors import UsageError
from rocketflow.namesrv.settings import load_namesrv_settings
from rocketflow_store import StoreConfigError
from tests.support.certificates import Authority


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(ca: Authority) -> dict[str, str]:
    """Return keys and values of a server with a certificate."""
    cert, key = ca.issue("server")
    return {"tls.server.certPath": str(cert), "tls.server.keyPath": str(key)}


def load(options: dict[str, str], file: Path | None = None) -> BrokerSettings:
    return load_broker_settings(file, options, {})[0]


def test_without_a_certificate_a_server_has_no_tls() -> None:
    settings = load({})
    assert (settings.tls_server_mode, settings.server_tls(), settings.client_tls()) == ("permissive", None, None)


def test_with_a_certificate_tls_is_optional_unless_it_is_enforced_or_disabled(pair: dict[str, str]) -> None:
    found = load(pair).server_tls()
    assert found is not None
    assert found.optional
    enforced = load({**pair, "tls.server.mode": "enforcing"}).server_tls()
    assert enforced is not None
    assert not enforced.optional
    assert load({**pair, "tls.server.mode": "disabled"}).server_tls() is None


def test_a_broker_that_enforces_tls_calls_name_servers_with_tls_unless_set_otherwise(pair: dict[str, str]) -> None:
    enforcing = {**pair, "tls.server.mode": "enforcing"}
    found = load(enforcing).client_tls()
    assert found is not None
    assert found.context.verify_mode is ssl.CERT_REQUIRED
    assert load({**enforcing, "tls.enable": "false"}).client_tls() is None
    unchecked = load({**enforcing, "tls.client.authServer": "false"}).client_tls()
    assert unchecked is not None
    assert unchecked.context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("address", ["0.0.0.0", "10.1.2.3", "::"])
def test_enforced_tls_opens_an_address_that_other_hosts_reach(pair: dict[str, str], address: str) -> None:
    enforcing = {**pair, "tls.server.mode": "enforcing", "bindAddress": address}
    assert load(enforcing).listen_address == address
    assert load_namesrv_settings(None, enforcing).bind_address == address
    for mode in ("permissive", "disabled"):
        with pytest.raises(UsageError, match=r"tls\.server\.mode=enforcing"):
            load({**enforcing, "tls.server.mode": mode})


def test_tls_properties_wins_over_other_sources_as_in_rocketmq(pair: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in pair.items()))
    conf = tmp_path / "broker.conf"
    conf.write_text(f"tls.config.file={file}\ntls.server.mode=enforcing\ntls.server.certPath=/nowhere\n")
    settings = load({}, conf)
    assert settings.tls_server_cert_path == pair["tls.server.certPath"]
    assert settings.server_tls() is not None
    names = load_namesrv_settings(conf, {})
    assert names.server_tls() is not None


def test_passwords_are_hidden_in_printed_settings(ca: Authority) -> None:
    cert, key = ca.issue("server", password="sesame")
    options = {"tls.server.certPath": str(cert), "tls.server.keyPath": str(key), "tls.server.keyPassword": "sesame"}
    settings, store, given = load_broker_settings(None, options, {})
    answered = answered_settings_text(settings, store, given)
    for text in (
        settings_text(settings, store, given),
        answered,
        load_namesrv_settings(None, options).properties_text(),
    ):
        assert "sesame" not in text
        assert f"tls.server.certPath={cert}\n" in text


ENFORCING = {"tls.server.mode": "enforcing"}
WRONG: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "no certificate": (ENFORCING, ("tls.server.certPath",)),
    "no key": ({**ENFORCING, "tls.server.certPath": "{cert}"}, ("tls.server.keyPath",)),
    "missing file": ({"tls.server.certPath": "/nowhere/c.pem", "tls.server.keyPath": "{key}"}, ("/nowhere/c.pem",)),
    "no PEM": ({"tls.server.certPath": "{cert}", "tls.server.keyPath": "{junk}"}, ("tls.server.keyPath", "{junk}")),
    "key of another": ({"tls.server.certPath": "{cert}", "tls.server.keyPath": "{other}"}, ("{cert}", "{other}")),
    "mode": ({"tls.server.mode": "on"}, ("tls.server.mode=on", "enforcing")),
    "client auth": ({"tls.server.need.client.auth": "yes"}, ("tls.server.need.client.auth=yes", "require")),
    "no authority": ({"PAIR": "", "tls.server.need.client.auth": "require"}, ("tls.server.trustCertPath",)),
    "authority is junk": (
        {"PAIR": "", "tls.server.need.client.auth": "require", "tls.server.trustCertPath": "{junk}"},
        ("tls.server.trustCertPath={junk}",),
    ),
    "unchecked clients": (
        {"PAIR": "", "tls.server.need.client.auth": "require", "tls.server.authClient": "false"},
        ("tls.server.authClient",),
    ),
    "missing tls.properties": ({"tls.config.file": "/nowhere/tls.properties"}, ("/nowhere/tls.properties",)),
    "mode in tls.properties": ({"tls.config.file": "{with_mode}"}, ("{with_mode} line 1", "tls.server.mode")),
    "typo in tls.properties": ({"tls.config.file": "{with_typo}"}, ("line 2", "tls.server.keyPath")),
}
OF_CLIENT: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "client without key": ({"tls.enable": "true", "tls.client.certPath": "{cert}"}, ("tls.client.keyPath",)),
    "missing trusted": ({"tls.enable": "true", "tls.client.trustCertPath": "/nowhere"}, ("tls.client.trustCertPath",)),
}


@pytest.mark.parametrize("case", [*WRONG, *OF_CLIENT])
def test_wrong_tls_settings_are_refused_with_key_and_file(case: str, pair: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "with_mode").write_text("tls.server.mode=enforcing\n")
    (tmp_path / "with_typo").write_text("# RocketMQ's file\ntls.server.keypath=x\n")
    _, other = Authority(tmp_path, "ca2").issue("other")
    places = {one: str(tmp_path / one) for one in ("junk", "with_mode", "with_typo")}
    places |= {"cert": pair["tls.server.certPath"], "key": pair["tls.server.keyPath"], "other": str(other)}
    settings, named = {**WRONG, **OF_CLIENT}[case]
    options = {key: value.format(**places) for key, value in settings.items() if key != "PAIR"}
    if "PAIR" in settings:
        options |= pair
    loads = [lambda: load(options)]
    if case in WRONG:
        loads.append(lambda: load_namesrv_settings(None, options))  # type: ignore[arg-type, return-value]
    for one in loads:
        with pytest.raises(UsageError) as error:
            one()
        for text in named:
            assert text.format(**places) in str(error.value)


def test_an_unusable_test_mode_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load({})
    settings.tls_test_mode_enable = True
    assert settings.server_tls() is not None
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="openssl"):
        settings.server_tls()


KEPT = {
    "fetchNamesrvAddrByAddressServer": ("true", "false", "namesrvAddr"),
    "fetchNameSrvAddrByDnsLookup": ("true", "false", "namesrvAddr"),
    "messageStorePlugIn": ("org.apache.rocketmq.tieredstore.TieredMessageStore", "", "tiered storage"),
    "storeType": ("defaultRocksDB", "default", "storeType=default"),
    "enableSlaveActingMaster": ("true", "false", "replication"),
    "duplicationEnable": ("true", "false", "replication"),
    "controllerAddr": ("127.0.0.1:9878", "", "controller"),
    "enableControllerMode": ("true", "false", "controller"),
    "fetchControllerAddrByDnsLookup": ("true", "false", "controller"),
    "enableDLegerCommitLog": ("true", "false", "DLedger"),
    "brokerRole": ("SYNC_MASTER", "ASYNC_MASTER", "replication"),
    "brokerId": ("1", "0", "replication"),
    "combineCQPreferCQType": ("defaultRocksDB", "default", "RocksDB"),
    "combineCQUseRocksdbForLmq": ("true", "false", "RocksDB"),
    "rocksdbCQDoubleWriteEnable": ("true", "false", "RocksDB"),
    "rocksdbCQSelectiveDoubleWriteEnable": ("true", "false", "RocksDB"),
    "timerRocksDBEnable": ("true", "false", "RocksDB"),
    "transRocksDBEnable": ("true", "false", "RocksDB"),
    "indexRocksDBEnable": ("true", "false", "RocksDB"),
    "useSingleRocksDBForAllConfigs": ("true", "false", "RocksDB"),
    "configManagerVersion": ("v2", "v1", "RocksDB"),
}


@pytest.mark.parametrize("key", KEPT)
def test_a_promise_that_a_broker_would_break_is_refused_by_name(key: str, tmp_path: Path) -> None:
    refused, kept, said = KEPT[key]
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{key}={refused}\n")
    for source in (lambda: load({key: refused}), lambda: load({}, conf)):
        with pytest.raises(UsageError) as caught:
            source()
        assert str(caught.value).startswith(f"{key}={refused}: ")
        assert said in str(caught.value)
    assert load({key: kept})


@pytest.mark.parametrize("key", ["enableControllerInNamesrv", "clusterTest"])
def test_a_promise_that_a_name_server_would_break_is_refused_by_name(key: str) -> None:
    for text in ("true", "TRUE"):
        with pytest.raises(UsageError, match=f"{key}={text}: .*: set {key}=false"):
            load_namesrv_settings(None, {key: text})
    assert load_namesrv_settings(None, {key: "false"}).listen_port == 9876


def test_both_servers_take_variables_before_their_file_and_after_options(tmp_path: Path) -> None:
    conf = tmp_path / "server.conf"
    conf.write_text("listenPort=1001\nbindAddress=127.0.0.1\n")
    environ = {
        "ROCKETFLOW_listenPort": "1002",
        "ROCKETFLOW_bindAddress": "0.0.0.0",
        "ROCKETFLOW_allowInsecure": "true",
        "ROCKETFLOW_tls_test_mode_enable": "true",
        "ROCKETFLOW_DEBUG": "1",
        "ROCKETFLOW_flushDiskType": "SYNC_FLUSH",
    }
    names = load_namesrv_settings(conf, {}, environ)
    broker, store, _ = load_broker_settings(conf, {}, environ)
    for one in (names, broker):
        assert (one.listen_port, one.bind_address) == (1002, "0.0.0.0")
        assert one.allow_insecure
        assert one.tls_test_mode_enable
    assert store.flush_disk_type.value == "SYNC_FLUSH"
    assert load_namesrv_settings(conf, {"listenPort": "1003"}, environ).listen_port == 1003
    assert load_broker_settings(conf, {"listenPort": "1003"}, environ)[0].listen_port == 1003
    wrong = {"ROCKETFLOW_listnPort": "1"}
    with pytest.raises(UsageError, match=r"environment variable ROCKETFLOW_listnPort: unknown key.*listenPort"):
        load_namesrv_settings(conf, {}, wrong)
    with pytest.raises(StoreConfigError, match=r"environment variable ROCKETFLOW_listnPort: unknown key.*listenPort"):
        load_broker_settings(conf, {}, wrong)
    with pytest.raises(UsageError, match="listenPort"):
        load_namesrv_settings(conf, {}, {"ROCKETFLOW_listenPort": "x"})


def values_of(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_all_settings_are_printed_and_the_important_ones_are_fewer(tmp_path: Path) -> None:
    settings, store, given = load_broker_settings(None, {"flushDiskType": "SYNC_FLUSH", "traceTopicEnable": "true"}, {})
    every = values_of(settings_text(settings, store, given))
    important = values_of(settings_text(settings, store, given, only_important=True))
    assert important.items() < every.items()
    assert (important["flushDiskType"], important["traceTopicEnable"]) == ("SYNC_FLUSH", "true")
    assert {"brokerName", "fileReservedTime", "storePathRootDir", "namesrvAddr", "deleteWhen"} < important.keys()
    assert {"mappedFileSizeCommitLog", "syncFlushTimeout", "messageDelayLevel", "bindAddress"} < every.keys()
    assert {"mappedFileSizeCommitLog", "bindAddress"}.isdisjoint(important)
    conf = tmp_path / "broker.conf"
    conf.write_text(settings_text(settings, store, given))
    again, same_store, _ = load_broker_settings(conf, {}, {})
    assert again == settings
    assert replace(same_store, without_effect=(), clock=store.clock) == replace(store, without_effect=())
    names = load_namesrv_settings(None, {"listenPort": "1"})
    assert values_of(names.important_text()).items() < values_of(names.properties_text()).items()
    assert values_of(names.important_text())["listenPort"] == "1"

"""TLS settings of NameServer and broker: RocketMQ's keys and file, and what is refused by name."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from rocketflow.broker.settings import BrokerSettings, answered_settings_text, load_broker_settings, settings_text
from rocketflow.errors import UsageError
from rocketflow.namesrv.settings import load_namesrv_settings
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
    for text in (settings_text(settings, given), answered, load_namesrv_settings(None, options).properties_text()):
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

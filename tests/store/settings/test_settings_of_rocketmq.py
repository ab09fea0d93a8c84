"""The keys and values of RocketMQ's broker.conf, 4.9 to 5.5.1: held against the setters in Apache's jars."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.setting import Kind
from rocketflow_store.settings.broker_conf import STORE_TABLE, parse_properties
from rocketflow_store.settings.settings_table import SETTINGS
from rocketflow_store.settings.store_config import StoreConfig
from tests.support.maven import JarsNotFetchedError, fetch_jars
from tests.support.trials import FULL

_CLASSES: Final = (
    "org.apache.rocketmq.store.config.MessageStoreConfig",
    "org.apache.rocketmq.common.BrokerConfig",
    "org.apache.rocketmq.common.BrokerIdentity",
    "org.apache.rocketmq.remoting.netty.NettyServerConfig",
    "org.apache.rocketmq.remoting.netty.NettyClientConfig",
    "org.apache.rocketmq.auth.config.AuthConfig",
    "org.apache.rocketmq.tieredstore.MessageStoreConfig",
    "org.apache.rocketmq.tieredstore.common.TieredMessageStoreConfig",
)
"""What BrokerStartup fills from its file (`MixAll.properties2Object`), and the plug-in that takes it too."""
_MODULES: Final = {
    "4.9.7": ("store", "common", "remoting"),
    "5.1.4": ("store", "common", "remoting"),
    "5.3.3": ("store", "common", "remoting", "auth", "tiered-store"),
    "5.4.0": ("store", "common", "remoting", "auth", "tiered-store"),
    "5.5.0": ("store", "common", "remoting", "auth", "tiered-store"),
    "5.5.1": ("store", "common", "remoting"),  # all of its modules that are on Maven Central and have settings
}
_KINDS: Final = {
    "boolean": (Kind.FLAG,),
    "int": (Kind.INT,),
    "long": (Kind.LONG,),
    "float": (Kind.FLOAT,),
    "double": (Kind.FLOAT,),
    "java.lang.String": (Kind.TEXT, Kind.CHOICE),
}
_SETTER: Final = re.compile(r"void set(\w+)\((boolean|int|long|float|double|java\.lang\.String)\)")


def parsed(text: str) -> dict[str, Any]:
    """Return the values of a properties text by key."""
    entries = ((key, value, f"line {number}") for number, key, value in parse_properties(text))
    return STORE_TABLE.typed_values(entries)


def keys_of(version: str) -> dict[str, set[str]]:
    """Return the value types by key, from every public setter with one argument that `properties2Object` can call."""
    javap = shutil.which("javap")
    if javap is None:
        pytest.skip("no javap: RocketMQ's setters cannot be read")
    wanted = [f"org.apache.rocketmq:rocketmq-{one}:{version}" for one in _MODULES[version]]
    try:
        lib = fetch_jars(f"settings/{version}", wanted, transitive=False)
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    found: dict[str, set[str]] = {}
    shown = subprocess.run(
        [javap, "-public", "-cp", str(lib / "*"), *_CLASSES], capture_output=True, text=True, check=False, timeout=120
    )
    for name, kind in _SETTER.findall(shown.stdout):
        found.setdefault(name[0].lower() + name[1:], set()).add(kind)
    assert {"storePathCommitLog", "brokerName", "listenPort"} <= set(found), shown.stderr
    return found


@pytest.mark.apache
@pytest.mark.parametrize("version", _MODULES if FULL else ("4.9.7", "5.5.1"))
def test_every_key_of_a_release_is_known_with_its_type(version: str) -> None:
    found = keys_of(version)
    unknown = {key: kinds for key, kinds in found.items() if key not in STORE_TABLE}
    assert not unknown, f"add to broker_conf_keys: {unknown}"
    wrong = {
        key: kinds for key, kinds in found.items() if not any(STORE_TABLE[key].kind in _KINDS[kind] for kind in kinds)
    }
    assert not wrong, "kinds of values that RocketMQ does not take"
    releases = list(_MODULES)
    for one in SETTINGS:
        due = one.since is not None and releases.index(version) >= releases.index(one.since)
        assert (one.key in found) == due, f"{one.key} since {one.since}"


EXTREMES: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.INT: ("0", "1", "-1", "2147483647", "-2147483648", "+7"),
    Kind.LONG: ("0", "-1", "9223372036854775807"),
    Kind.FLOAT: ("0.5", "1e3", "2d", "1.5f", "-0.0", "NaN"),
}
_FILE_SIZES: Final = {
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mapperFileSizeBatchConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "mappedFileSizeTimerLog",
    "maxHashSlotNum",
    "maxIndexNum",
}


def test_every_number_that_rocketmq_takes_is_taken() -> None:
    """A number outside the range that it can have is moved there, as RocketMQ does; but for sizes of files."""
    for key, row in STORE_TABLE.items():
        for value in EXTREMES.get(row.kind, ()):
            found = parsed(f"{key}={value}")
            if key not in _FILE_SIZES:
                StoreConfig.from_mapping(found)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("mappedFileSizeTimerLog=2600", "mapped_file_size_timer_log", 2600),
        ("timerPrecisionMs=50", "timer_precision_ms", 100),
        ("timerPrecisionMs=300", "timer_precision_ms", 200),
        ("timerPrecisionMs=999", "timer_precision_ms", 500),
        ("timerPrecisionMs=5000", "timer_precision_ms", 1000),
        ("timerRollWindowSlot=1", "timer_roll_window_slot", 7 * 86_400 - 60),
        ("flushIntervalCommitLog=0", "flush_interval_commit_log", 1),
        ("flushIntervalCommitLog=7200000", "flush_interval_commit_log", 7_200_000),
        ("maxMessageSize=2147483647", "max_message_size", 1 << 29),
        ("fileReservedTime=-1", "file_reserved_time", 0),
        ("diskMaxUsedSpaceRatio=101", "disk_max_used_space_ratio", 100),
        ("deleteWhen=04;24", "delete_when", "04"),
        ("brokerIP1=broker-1.example.org\nlistenPort=10921", "store_host", "127.0.0.1:10921"),
        ("brokerIP1=10.1.2.3", "store_host", "10.1.2.3:10911"),
        ("rocketflow.directIO=true", "direct_io", True),
    ],
)
def test_a_value_means_what_it_means_to_rocketmq(text: str, field: str, value: Any) -> None:
    assert getattr(StoreConfig.from_mapping(parsed(text)), field) == value


@pytest.mark.parametrize("text", ["mappedFileSizeCommitLog=0", "maxIndexNum=-1", "mappedFileSizeTimerLog=67"])
def test_a_size_that_no_file_can_have_is_refused(text: str) -> None:
    with pytest.raises(StoreConfigError, match="between"):
        StoreConfig.from_mapping(parsed(text))


def test_misspelt_keys_of_new_releases_get_their_names() -> None:
    for wrong, right in (
        ("timerRocksDbEnabled", "timerRocksDBEnable"),
        ("commitLogRecoverMaxnum", "commitLogRecoverMaxNum"),
        ("tieredStoreFilepath", "tieredStoreFilePath"),
        ("useSeparateRetryQueues", "useSeparateRetryQueue"),
    ):
        with pytest.raises(StoreConfigError, match=f"did you mean {right}?"):
            parsed(f"{wrong}=true")


def test_keys_without_effect_are_named_once_at_the_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerId=0\nnamesrvAddr=a:9876\nmaxMessageSize=1000\ntimerRocksDBEnable=true\n")
    config = StoreConfig.from_broker_conf(conf, mapped_file_size_commit_log=65_536)
    assert config.without_effect == ("brokerId", "namesrvAddr", "timerRocksDBEnable")
    with caplog.at_level(logging.WARNING, "rocketflow_store"):
        with MessageStore.open(tmp_path / "s", config) as store:
            store.put_message(Message("t", b"b"))
        with StoreReader(tmp_path / "s", config) as reader:
            assert reader.config.without_effect == config.without_effect
    warnings = [one for one in caplog.records if getattr(one, "rf_code", "") == "RF-CONFIG"]
    assert len(warnings) == 1
    assert "brokerId, namesrvAddr, timerRocksDBEnable" in warnings[0].getMessage()


def test_numbers_keep_java_spelling() -> None:
    assert STORE_TABLE.typed("timerRocksDBRollMaxTps", "1e3d", "") == 1000.0
    with pytest.raises(StoreConfigError, match="number"):
        STORE_TABLE.typed("timerRocksDBRollMaxTps", "fast", "")

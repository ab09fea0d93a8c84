"""Files with all defaults of RocketMQ start a broker and a NameServer; `-m` prints its important settings."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketflow.broker.settings import BrokerSettings, load_broker_settings
from rocketflow.namesrv.settings import load_namesrv_settings
from tests.apache.judge import versions
from tests.support.java_programs import FLAGS, broker_jars, compiled
from tests.support.maven import JarsNotFetchedError, java_and_javac

pytestmark = pytest.mark.apache

BROKER = ("common.BrokerConfig", "store.config.MessageStoreConfig", "remoting.netty.NettyClientConfig")
NAMESRV = ("common.namesrv.NamesrvConfig",)
BOTH = ("remoting.netty.NettyServerConfig",)
FIELDS_WITHOUT_KEY = {"isEnableBatchPush", "configBlackList"}
"""Fields that are no keys: the setter has another name; a default that is the list of what 318 refuses."""

LISTENING = {"bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1"}
"""The one change that a file needs: RocketMQ's default address is reached by other hosts."""

OF_REPLICAS = {
    *("allAckInSyncStateSet", "disappearTimeAfterStart", "enableAutoInSyncReplicas", "haFlowControlEnable"),
    *("haMasterAddress", "inSyncReplicas", "minInSyncReplicas", "storePathBrokerIdentity", "storePathDLedgerCommitLog"),
    *("storePathEpochFile", "totalReplicas"),
}
WITHOUT_EFFECT = {
    *("dispatchFromSenderThread", "enableCleanExpiredOffset", "enableRunningFlagsInFlush", "recoverConcurrently"),
    *("wakeCommitWhenPutMessage", "wakeFlushWhenPutMessage", "writeWithoutMmap"),
}


IMPORTANT = {key for key, row in BrokerSettings.TABLE.items() if row.important and not key.startswith("tls.")}


class Row(NamedTuple):
    """A setting of one of RocketMQ's classes."""

    kind: str
    key: str
    important: bool
    value: str


def rows(version: str) -> list[Row]:
    try:
        java, lib = java_and_javac()[0], broker_jars(version)
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    path = f"{lib}/*:{compiled('Settings', version, lib)}"
    command = [java, *FLAGS, "-cp", path, "Settings", *BROKER, *NAMESRV, *BOTH]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("SETTING\t")]
    found = [Row(kind, key, important == "true", value) for _, kind, key, important, value in lines]
    return [one for one in found if one.key not in FIELDS_WITHOUT_KEY]


def file_of(settings: list[Row], classes: tuple[str, ...], path: Path) -> Path:
    kinds = {one.rpartition(".")[2] for one in classes}
    values = {one.key: LISTENING.get(one.key, one.value) for one in settings if one.kind in kinds and one.value}
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items() if key != "listenPort"))
    return path


@pytest.mark.parametrize("version", versions("5.5.0"))
def test_files_with_all_defaults_of_rocketmq_are_accepted(version: str, tmp_path: Path) -> None:
    found = rows(version)
    settings, store, given = load_broker_settings(file_of(found, (*BROKER, *BOTH), tmp_path / "broker.conf"), {}, {})
    assert len(given) > 150
    assert (settings.listen_port, store.file_reserved_time) == (10911, 72)
    assert load_namesrv_settings(file_of(found, (*NAMESRV, *BOTH), tmp_path / "namesrv.conf"), {}).listen_port == 9876
    important = {one.key for one in found if one.important}
    assert important - IMPORTANT <= OF_REPLICAS | WITHOUT_EFFECT
    assert not [one for one in found if one.important and one.kind == "NamesrvConfig"]
    if version == "5.5.0":
        assert important >= IMPORTANT

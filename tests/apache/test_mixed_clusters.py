"""RocketMQ's servers and RocketFlow's in one cluster, and a store that passes from one broker to the other."""

from __future__ import annotations

import base64
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from tests.apache.clients import all_ok, java_families, own_broker, record
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.servers import running, wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(LEVEL == "sample", reason="two brokers each: RF_FULL=1 runs it"),
]

VERSION = "5.3.3"
FAMILIES = ["sync", "push", "tags", "retry"]


def line(text: str) -> str:
    """Return the words by which `java/Client.java` sends a body to queue 0."""
    return f"SEND\tt\t0\t{base64.b64encode(text.encode()).decode()}\ta\tk"


def bodies(answers: list[list[str]]) -> list[str]:
    """Return the bodies that `java/Client.java` has read."""
    return [base64.b64decode(one[-1]).decode() for one in answers if one[0] == "MESSAGE"]


def test_our_broker_serves_clients_at_an_apache_name_server(tmp_path: Path) -> None:
    other = replace(SIZES, broker_name="apache")
    with (
        RealBroker(VERSION, tmp_path / "apache", other, tmp_path / "work", last=True) as apache,
        own_broker(tmp_path / "own", f"127.0.0.1:{apache.names_port}", "brokerClusterName=RF") as broker,
    ):
        place = "Apache's NameServer, both brokers"
        found = java_families("QuickStart", VERSION, f"127.0.0.1:{apache.names_port}", FAMILIES, tmp_path, place)
        assert found == all_ok(FAMILIES), broker.log.read_text()[-3000:]


def test_both_brokers_share_the_messages_of_a_cluster(tmp_path: Path) -> None:
    other = replace(SIZES, broker_name="apache")
    with ExitStack() as stack:
        own = ("--set", f"kvConfigPath={tmp_path}/kv.json")
        names = stack.enter_context(running("namesrv", tmp_path, *own))
        broker = stack.enter_context(own_broker(tmp_path / "own", names.address, "brokerClusterName=RF"))
        home = tmp_path / "work"
        stack.enter_context(RealBroker(VERSION, tmp_path / "apache", other, home, names_port=names.port, last=True))
        place = "RocketFlow's NameServer, both brokers"
        found = java_families("QuickStart", VERSION, names.address, FAMILIES, tmp_path, place)
        assert found == all_ok(FAMILIES), broker.log.read_text()[-3000:]


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
@pytest.mark.parametrize("first", ["RocketFlow", "Apache"])
def test_a_group_continues_at_the_broker_that_takes_the_store_over(version: str, first: str, tmp_path: Path) -> None:
    """Its offsets, messages that it sent back and delayed messages are in the store, whichever broker wrote it."""
    store = tmp_path / "store"
    with running("namesrv", tmp_path, "--set", f"kvConfigPath={tmp_path}/kv.json") as names:

        def broker(kind: str) -> AbstractContextManager[object]:
            if kind == "Apache":
                return RealBroker(version, store, SIZES, tmp_path / "work", names_port=names.port)
            return own_broker(tmp_path / "own", names.address, *settings_of(store))

        for kind, family in ((first, "leave"), ("Apache" if first == "RocketFlow" else "RocketFlow", "take")):
            with broker(kind):
                wait_for_a_broker(names.address)
                place = f"A store of {first}'s broker at the other"
                assert java_families("FurtherFamilies", VERSION, names.address, [family], tmp_path, place) == all_ok(
                    [family]
                )


def settings_of(store: Path) -> list[str]:
    """Return the settings of our broker for a store of SIZES."""
    return [
        f"storePathRootDir={store}",
        f"mappedFileSizeCommitLog={SIZES.mapped_file_size_commit_log}",
        f"mappedFileSizeConsumeQueue={SIZES.mapped_file_size_consume_queue}",
        f"maxHashSlotNum={SIZES.max_hash_slot_num}",
        f"maxIndexNum={SIZES.max_index_num}",
        f"brokerName={SIZES.broker_name}",
    ]


def test_a_store_passes_from_our_broker_to_apache_s_and_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with MessageStore.open(store, SIZES) as made:
        made.create_topic("t", 1)
    sent: list[str] = []
    with running("namesrv", tmp_path, "--set", f"kvConfigPath={tmp_path}/kv.json") as names:
        for turn in range(4):
            sent += [f"{turn}-{n}" for n in range(5)]
            if turn % 2:
                work = tmp_path / f"work-{turn}"
                with RealBroker(VERSION, store, SIZES, work, names_port=names.port) as apache:
                    answers = apache.ask("t", [*map(line, sent[-5:]), "PULL\tt\t0"])
            else:
                with own_broker(tmp_path / "own", names.address, *settings_of(store)) as broker:
                    asking = RealBroker(VERSION, store, SIZES, tmp_path / "client", names_port=names.port)
                    answers = asking.ask("t", [*map(line, sent[-5:]), "PULL\tt\t0"])
                    assert broker.stop() == 0
            assert [one[1] for one in answers if one[0] == "SENT"] == ["SEND_OK"] * 5
            assert bodies(answers) == sent
    record("A store in turn at both brokers", {"hand-over": "ok hand-over"})

"""`rocketflow admin` prints the columns and values that mqadmin 5.3.3 prints, at the same NameServer and broker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from rocketflow.cli.app import run
from rocketflow.client import PullOptions
from rocketflow.client.sync import PullConsumer
from rocketflow.testing import start_cluster
from tests.apache.mqadmin import mqadmin
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(LEVEL == "sample", reason="a Java process for a dozen commands: RF_FAULTS=1 runs it"),
]

VERSION: Final = "5.3.3"
TOPIC, GROUP, ONLINE = "orders", "billing", "online"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]?\d*Z?")
_DROPPED: Final = re.compile(r"Topic Put TPS|start reset consumer|-{20}|Total:")
"""Lines that only mqadmin prints."""


def commands(names: str, broker: str) -> list[list[str]]:
    """Return commands whose output is compared."""
    at = ["-n", names]
    return [
        ["topicStatus", *at, "-t", TOPIC],
        ["topicList", *at],
        ["topicRoute", *at, "-t", TOPIC, "-l"],
        ["topicClusterList", *at, "-t", TOPIC],
        ["resetOffsetByTime", *at, "-g", GROUP, "-t", TOPIC, "-s", "0"],
        ["consumerConnection", *at, "-g", ONLINE],
        ["consumerProgress", *at],
        ["consumerProgress", *at, "-g", GROUP, "-t", TOPIC],
        ["consumerProgress", *at, "-g", GROUP, "-t", TOPIC, "-s", "true"],
        [
            "resetOffsetByTime",
            *at,
            "-g",
            GROUP,
            "-t",
            TOPIC,
            "-s",
            "0",
            "-b",
            broker,
            "-q",
            "1",
            "-o",
            "1",
            "-f",
            "true",
        ],
        ["brokerConsumeStats", *at, "-b", broker, "-l", "1"],
        ["queryMsgByKey", *at, "-t", TOPIC, "-k", "key-3"],
        ["clusterList", *at],
        ["clusterList", *at, "-m"],
        ["statsAll", *at, "-t", TOPIC],
        ["wipeWritePerm", *at, "-b", "broker-a"],
        ["addWritePerm", *at, "-b", "broker-a"],
        ["updateKvConfig", *at, "-s", "NS", "-k", "k", "-v", "v"],
        ["deleteKvConfig", *at, "-s", "NS", "-k", "k"],
        ["getBrokerConfig", *at, "-b", broker],
        ["getNamesrvConfig", *at],
        ["deleteSubGroup", *at, "-b", broker, "-g", GROUP],
        ["deleteTopic", *at, "-c", "DefaultCluster", "-t", "unused"],
    ]


def described(names: str, broker: str, message: Mapping[str, str]) -> list[list[str]]:
    """Return commands whose lines begin with names, which are compared; their values have other forms."""
    at = ["-n", names]
    return [
        ["queryMsgById", *at, "-t", TOPIC, "-i", message["msgId"], "-f", "UTF-8"],
        ["queryMsgByUniqueKey", *at, "-t", TOPIC, "-i", message["uniqKey"]],
        ["brokerStatus", *at, "-b", broker],
    ]


def names_of(text: str) -> set[str]:
    """Return what stands before the first colon or bracket of each line, without advice about errors."""
    lines = [line for line in text.splitlines() if line.strip() and "http" not in line]
    return {re.split(r":|\[", line)[0].strip() for line in lines}


def normalised(text: str) -> list[str]:
    """Return lines without the differences of form: spaces, times, rates, the order of settings and topics."""
    lines = [_TIME.sub("TIME", " ".join(line.split())) for line in text.splitlines()]
    lines = [re.sub(r"\b\d+\.\d\d\b", "RATE", one) for one in lines if one and not _DROPPED.match(one)]
    return sorted(lines) if "#" not in text or "#Accumulation" in text else lines


def _wait_for_counts(names: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wait until the broker has counted the messages of the day, which it does every 10 s."""
    ends = time.monotonic() + 120
    while True:
        capsys.readouterr()
        assert run(["admin", "statsAll", "-n", names, "-t", TOPIC, "--json"]) == 0
        if json.loads(capsys.readouterr().out.splitlines()[0])["inMsgDay"] == 5:
            return
        assert time.monotonic() < ends
        time.sleep(0.5)


def test_output_is_that_of_mqadmin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(start_cluster())
        names, broker = cluster.name_server_address, cluster.broker_address
        cluster.create_topic(TOPIC, queues=2)
        cluster.create_topic("unused")
        lines = tmp_path / "lines"  # one command sends to both queues, so that each has a time
        lines.write_text("".join(f'{{"body": "body {one}", "keys": ["key-{one}"]}}\n' for one in range(5)))
        assert run(["send", "-n", names, "--topic", TOPIC, "--format", "json", "--input", str(lines)]) == 0
        assert run(["admin", "updateSubGroup", "-n", names, "-b", broker, "-g", GROUP]) == 0
        _wait_for_counts(names, capsys)
        online = stack.enter_context(PullConsumer(PullOptions(group=ONLINE, name_servers=names)))
        online.subscribe(TOPIC, "paid")
        wanted = commands(names, broker)
        printed = []
        for words in wanted:
            capsys.readouterr()
            assert run(["admin", *words]) == 0, words
            printed.append(normalised(capsys.readouterr().out))
        cluster.create_topic("unused")
        run(["admin", "updateSubGroup", "-n", names, "-b", broker, "-g", GROUP])
        capsys.readouterr()
        assert run(["admin", "queryMsgByKey", "-n", names, "-t", TOPIC, "-k", "key-3", "--json"]) == 0
        by_name = described(names, broker, json.loads(capsys.readouterr().out.splitlines()[0]))
        lines_printed = []
        for words in by_name:
            assert run(["admin", *words]) == 0, words
            lines_printed.append(capsys.readouterr().out)
        texts = mqadmin(names, tmp_path / "tools", [*by_name, *wanted], VERSION)
        by_mqadmin = [normalised(one) for one in texts[len(by_name) :]]
    different = [
        f"{words[0]}\n  printed   {own}\n  by_mqadmin {mqadmins}"
        for words, own, mqadmins in zip(wanted, printed, by_mqadmin, strict=True)
        if own != mqadmins
    ]
    assert different == [], "\n".join(different)
    for words, own_text, mqadmins_text in zip(by_name, lines_printed, texts, strict=False):
        own_names, mqadmins_names = names_of(own_text), names_of(mqadmins_text)
        added, missing = own_names - mqadmins_names, mqadmins_names - own_names
        assert missing <= {"Message Body Path"}, words  # no file is written for a body
        assert added <= {"Message Body", "OffsetID"}, words

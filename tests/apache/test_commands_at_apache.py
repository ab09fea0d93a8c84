"""`rocketflow send`, `consume` and the subcommands of `rocketflow admin` that read, at Apache's broker 5.3.3."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from rocketflow.cli.app import run
from rocketflow.client import PullOptions
from rocketflow.client.sync import PullConsumer
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(LEVEL == "sample", reason="boots a broker of Apache's: RF_FAULTS=1 runs it"),
]

VERSION: Final = "5.3.3"
TOPIC, GROUP, QUEUES = "orders", "billing", 2
COUNT: Final = 6

Rows = Callable[..., list[dict[str, Any]]]


class Servers(NamedTuple):
    """The addresses of Apache's NameServer and broker."""

    names: str
    broker: str


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    home = tmp_path_factory.mktemp("apache")
    sizes = replace(SIZES, broker_name="apache")
    with RealBroker(VERSION, home / "store", sizes, home / "work", last=True) as found:
        servers = Servers(f"127.0.0.1:{found.names_port}", f"127.0.0.1:{found.port}")
        wait_for_a_broker(servers.names)
        made = ["-b", servers.broker, "-t", TOPIC, "-r", str(QUEUES), "-w", str(QUEUES)]
        assert run(["admin", "updateTopic", "-n", servers.names, *made]) == 0
        lines = home / "lines"
        lines.write_text(
            "".join(f'{{"body": "body {one}", "keys": ["k{one}"], "tags": "paid"}}\n' for one in range(COUNT))
        )
        sent = ["--topic", TOPIC, "--format", "json", "--input", str(lines)]
        assert run(["send", "-n", servers.names, *sent]) == 0
        yield servers


@pytest.fixture
def rows(apache: Servers, capsys: pytest.CaptureFixture[str]) -> Rows:
    """Provide the JSON rows of a command, which must end with 0, as it must without --json."""

    def call(*words: str) -> list[dict[str, Any]]:
        found = []
        for more in ([], ["--json"]):
            capsys.readouterr()
            code = run([*words, "-n", apache.names, *more])
            out, err = capsys.readouterr()
            assert code == 0, (words, err)
            found = out.splitlines()
        return [json.loads(one) for one in found]

    return call


def test_messages_that_were_sent_are_consumed(rows: Rows, apache: Servers) -> None:
    found = rows("consume", "--topic", TOPIC)
    assert sorted(one["body"] for one in found) == [f"body {number}" for number in range(COUNT)]
    with_group = ("consume", "--topic", TOPIC, "--group", GROUP, "--from", "first", "-n", apache.names)
    assert run(list(with_group)) == 0
    (progress,) = rows("admin", "consumerProgress", "-g", GROUP, "-t", TOPIC)
    assert (progress["diffTotal"], len(progress["queues"])) == (0, QUEUES)


def test_each_subcommand_that_reads_works(rows: Rows, apache: Servers) -> None:
    at, of_topic = ("-b", apache.broker), ("-t", TOPIC)
    with ExitStack() as stack:
        options = PullOptions(group="online", name_servers=apache.names)
        consumer = stack.enter_context(PullConsumer(options))
        consumer.subscribe(TOPIC, "paid")
        messages = rows("admin", "printMsg", *of_topic)
        assert len(messages) == COUNT
        one = messages[0]
        place = ("-b", one["brokerName"], "-i", str(one["queueId"]), "-o", str(one["queueOffset"]))
        found = {
            words[0]: rows("admin", *words)
            for words in (
                ("topicList",),
                ("topicStatus", *of_topic),
                ("topicRoute", *of_topic),
                ("topicClusterList", *of_topic),
                ("statsAll", *of_topic),
                ("clusterList",),
                ("brokerStatus", *at),
                ("getBrokerConfig", *at),
                ("getNamesrvConfig",),
                ("consumerConnection", "-g", "online"),
                ("consumerStatus", "-g", "online"),
                ("consumerProgress",),
                ("brokerConsumeStats", *at),
                ("getConsumerConfig", "-g", "online"),
                ("producer", *at),
                ("queryMsgById", "-i", one["msgId"]),
                ("queryMsgByUniqueKey", *of_topic, "-i", one["uniqKey"]),
                ("queryMsgByKey", *of_topic, "-k", one["keys"]),
                ("queryMsgByOffset", *of_topic, *place),
                ("printMsgByQueue", *of_topic, "-a", one["brokerName"], "-i", str(one["queueId"]), "-f", "true"),
                ("consumeMessage", *of_topic),
            )
        }
    assert {TOPIC} <= {row["topic"] for row in found["topicList"]}
    assert sum(row["maxOffset"] for row in found["topicStatus"]) == COUNT
    assert found["clusterList"][0]["brokerAddr"] == apache.broker
    assert found["consumerConnection"][0]["subscriptions"] == [{"topic": TOPIC, "subString": "paid"}]
    assert found["consumerStatus"][0]["sameSubscription"] is True
    for name in ("queryMsgById", "queryMsgByUniqueKey", "queryMsgByKey", "queryMsgByOffset"):
        assert [row["body"] for row in found[name]] == [one["body"]], name
    assert found["queryMsgById"][0]["tracks"] == found["queryMsgByUniqueKey"][0]["tracks"]
    assert [row["tag"] for row in found["printMsgByQueue"]] == ["paid"]
    assert len(found["consumeMessage"]) == COUNT

"""mqadmin of RocketMQ 5.3.3 runs its commands against RocketFlow's NameServer and broker."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.apache.clients import cluster, record
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import JarsNotFetchedError, fetch_jars, java_and_javac
from tests.support.servers import RunningServer
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(LEVEL == "sample", reason="minutes for some thirty commands: RF_FULL=1 runs it"),
]

VERSION: Final = "5.3.3"
SECONDS: Final = 900


def mqadmin(names: RunningServer, home: Path, commands: Sequence[Sequence[str]]) -> list[str]:
    """Run commands in one JVM; return the text that each printed. `home/conf/tools.yml` may have an account."""
    try:
        lib = fetch_jars(f"apache/{VERSION}-tools", [f"org.apache.rocketmq:rocketmq-tools:{VERSION}"])
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    homes = (f"-Duser.home={home}", f"-Drocketmq.home.dir={home}")  # conf/tools.yml has the account, if there is one
    flags = [*FLAGS, *homes, "-cp", f"{lib}/*:{compiled('AdminCommands', VERSION, lib)}"]
    done = subprocess.run(
        [java_and_javac()[0], *flags, f"-Drocketmq.namesrv.addr={names.address}", "AdminCommands"],
        input="".join("\t".join(one) + "\n" for one in commands),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    found = [base64.b64decode(one).decode() for one in done.stdout.splitlines()]
    assert len(found) == len(commands), (done.stdout[-2000:], done.stderr[-2000:])
    return found


def commands(names: RunningServer, broker: RunningServer) -> list[tuple[list[str], str]]:
    """Return commands, each with a text that its output has."""
    at = ["-n", names.address]
    here = ["-b", broker.address]
    return [
        (["clusterList", *at], "broker-a"),
        (["updateTopic", *at, *here, "-t", "made", "-r", "4", "-w", "4"], "create topic to"),
        (["updateTopic", *at, "-c", "DefaultCluster", "-t", "other"], "create topic to"),
        (["updateTopicPerm", *at, *here, "-t", "other", "-p", "4"], "other"),
        (["topicList", *at], "made"),
        (["topicList", *at, "-c"], "DefaultCluster"),
        (["topicRoute", *at, "-t", "made"], '"brokerName":"broker-a"'),
        (["topicClusterList", *at, "-t", "made"], "DefaultCluster"),
        (["topicStatus", *at, "-t", "made"], "broker-a"),
        (["updateSubGroup", *at, *here, "-g", "readers"], "create subscription group to"),
        (["getConsumerConfig", *at, "-g", "readers"], "readers"),
        (["sendMessage", *at, "-t", "made", "-p", "hello", "-k", "the-key", "-b", "broker-a", "-i", "1"], "SEND_OK"),
        (["queryMsgByKey", *at, "-t", "made", "-k", "the-key"], "    1                                        0"),
        (["queryMsgByOffset", *at, "-t", "made", "-b", "broker-a", "-i", "1", "-o", "0"], "the-key"),
        (["queryCq", *at, *here, "-t", "made", "-q", "1", "-i", "0", "-c", "5"], "physicOffset"),
        (["consumeMessage", *at, "-t", "made", "-g", "readers", "-b", "broker-a", "-i", "1", "-o", "0"], "hello"),
        (["printMsg", *at, "-t", "made"], "hello"),
        (["resetOffsetByTime", *at, "-g", "readers", "-t", "made", "-s", "0"], "broker-a"),
        (["consumerProgress", *at, "-g", "readers"], "Consume TPS"),
        (["brokerConsumeStats", *at, *here], "Diff Total"),
        (["cloneGroupOffset", *at, "-s", "readers", "-d", "copies", "-t", "made", "-o", "true"], "success"),
        (["consumerConnection", *at, "-g", "readers"], "not online"),
        (["producer", *here], ""),
        (["statsAll", *at, "-t", "made"], "made"),
        (["brokerStatus", *at, *here], "brokerVersionDesc"),
        (["getBrokerConfig", *at, *here], "brokerName"),
        (["getNamesrvConfig", *at], "listenPort"),
        (["updateKvConfig", *at, "-s", "NS", "-k", "key", "-v", "value"], "create or update kv config to namespace"),
        (["deleteKvConfig", *at, "-s", "NS", "-k", "key"], "delete kv config from namespace"),
        (["updateOrderConf", *at, "-t", "made", "-m", "put", "-v", "broker-a:4"], "made"),
        (["wipeWritePerm", *at, "-b", "broker-a"], "wipe write perm of broker"),
        (["addWritePerm", *at, "-b", "broker-a"], "add write perm of broker"),
        (["allocateMQ", *at, "-t", "made", "-i", "127.0.0.1,127.0.0.2"], "broker-a"),
        (["deleteSubGroup", *at, *here, "-g", "copies"], "delete subscription group"),
        (["deleteTopic", *at, "-c", "DefaultCluster", "-t", "other"], "delete topic"),
    ]


def test_mqadmin_prints_what_it_asks_for(tmp_path: Path) -> None:
    with cluster(tmp_path) as (names, broker):
        wanted = commands(names, broker)
        found = mqadmin(names, tmp_path, [one for one, _ in wanted])
        failed = {}
        for (command, text), printed in zip(wanted, found):
            is_good = text in printed and ("Exception" not in printed or text == "not online")
            failed[command[0]] = f"ok {command[0]}" if is_good else f"not ok {command[0]} {printed[-700:]}"
        record("mqadmin 5.3.3", failed)
        assert [one for one in failed.values() if one.startswith("not ok")] == [], broker.log.read_text()[-2000:]

"""mqadmin's commands in one JVM, and their output without what differs between any two runs."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

from tests.apache.mqadmin_differences import SAME, Differences
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import JarsNotFetchedError, fetch_jars, java_and_javac

SECONDS: Final = 900

RUN_FOR: Final = "@for"
"""Begins a command that runs for some seconds: the number of them and the command follow."""

LISTED_KEY: Final = "brokerPermission"
"""The setting that RocketFlow's broker lets mqadmin change."""

TOPICS_FILE: Final = "topics.json"
GROUPS_FILE: Final = "groups.json"
"""Files for updateTopicList and updateSubGroupList, in the directory of mqadmin's process."""

TRACED: Final = 160
"""The number at the end of the unique key of the message whose trace is written."""

FIRST_UNIQUE_KEY: Final = "7F00000100002A139A3E0000000000"
"""What the unique keys of `java/AdminCommands.java` begin with."""

_EXPORT: Final = re.compile(r"^export (\S+\.json) success", re.MULTILINE)
_LEFT: Final = re.compile(r"\s+at |\s*\.\.\. \d+ more|For more information|See http|rt=")
_JSTACK: Final = "#Consumer jstack#"
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")
_OF_A_RUN: Final = """
    bindAddress bootTimestamp commitLogDiskRatio commitLogMaxOffset configStorePath consumeQueueDiskRatio
    dispatchBehindBytes earliestMessageTimeStamp enablePropertyFilter getFoundTps getMessageEntireTimeMax getMissTps
    getTotalTps getTransferedTps getTransferredTps haListenPort kvConfigPath listenPort mappedFileSizeCommitLog
    maxHashSlotNum maxIndexNum metricsPromExporterHost namesrvAddr pageCacheLockTimeMills putLatency99 putLatency999
    pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize putMessageAverageSize putMessageEntireTimeMax
    putMessageSizeTotal putTps registerBrokerTimeoutMills remainHowManyDataToFlush rocketmqHome runtime
    storePathRootDir transactionCheckInterval waitTimeMillsInSendQueue
"""
"""Settings and figures that both sides list, with values of their own."""

_CHANGING: Final = (
    (re.compile(rf"^({'|'.join(_OF_A_RUN.split())})\s*([:=]).*"), r"\1 \2 OWN"),
    (re.compile(r"\(\w+\.java:\d+\)"), ""),
    (re.compile(r"\b(?!7F00000100002A139A3E)[0-9A-F]{32,}\b"), "ID"),
    (re.compile(r"\b\d+ms\b"), "N ms"),
    (re.compile(r"__CRC32#=\d+"), "__CRC32#=N"),
    (re.compile(r"(/0x[0-9a-f]+)?@[0-9a-f]{6,8}\b"), ""),
    (re.compile(r" true\s+\d+$"), " true RT"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([,.]\d{3})?"), "TIME"),
    (re.compile(r"\b1[5-9]\d{11}\b|\b20\d{15}\b"), "MS"),
    (re.compile(r"\b20\d{12}\b"), "TIME"),
    (re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])"), "N.N"),
    (re.compile(r"\b\d+-\d+\(\d+\.\d+w"), "N-N(N.Nw"),  # the progress of timers
)


@dataclass(frozen=True)
class Place:
    """Servers that mqadmin is used with; all that is printed of them is replaced by the names of these fields."""

    names: str
    broker: str
    home: Path
    version: str

    def shown(self, command: Sequence[str]) -> str:
        """Return a command as the table of results has it."""
        return self.without_names(" ".join(command[2:] if command[0] == RUN_FOR else command))

    def without_names(self, text: str) -> str:
        """Return a text with `NAMES`, `BROKER` and `HOME` in the place of these servers' addresses and directory."""
        for value, name in ((self.names, "NAMES"), (self.broker, "BROKER"), (str(self.home), "HOME")):
            text = text.replace(value, name)
        return text


def mqadmin(names: str, home: Path, commands: Sequence[Sequence[str]], version: str = "5.3.3") -> list[str]:
    """Run commands in one JVM; return the text that each printed. `home/conf/tools.yml` may have an account."""
    try:
        lib = fetch_jars(f"apache/{version}-tools", [f"org.apache.rocketmq:rocketmq-tools:{version}"])
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "logback_tools.xml").write_text("<configuration/>")  # RocketMQ 4 asks for it
    homes = (f"-Duser.home={home}", f"-Drocketmq.home.dir={home}")  # conf/tools.yml has the account, if there is one
    (home / TOPICS_FILE).write_text('[{"topicName": "listed", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}]')
    (home / GROUPS_FILE).write_text('[{"groupName": "listed"}]')
    flags = [*FLAGS, *homes, "-cp", f"{lib}/*:{compiled('AdminCommands', version, lib)}"]
    done = subprocess.run(
        [java_and_javac()[0], *flags, f"-Drocketmq.namesrv.addr={names}", "AdminCommands"],
        input="".join("\t".join(one) + "\n" for one in commands),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=home,
    )
    found = [base64.b64decode(one).decode() for one in done.stdout.splitlines()]
    assert len(found) == len(commands), (commands[len(found)], done.stderr[-2000:])
    return [f"{one}\n{_exported(home, one)}" for one in found]


def _exported(home: Path, printed: str) -> str:
    """Return the entries of the file that an export has written, one a line."""
    named = _EXPORT.search(printed)
    return "" if named is None else "\n".join(entries(json.loads((home / named[1]).read_text())))


def entries(value: object, path: str = "") -> Iterator[str]:
    """Yield `path: value` for each value that a JSON document has, also for those that are empty."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from entries(one, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for one in value:
            yield from entries(one, f"{path}[]")
    else:
        yield f"{path.lstrip('.')}: {json.dumps(value)}"


def scenario(place: Place) -> list[list[str]]:
    """Return the commands of a comparison: each subcommand that needs one NameServer and one broker.

    Those that run until they are stopped run for some seconds. Not among them: those of controllers, containers and
    static topics.
    """
    parts = (_topics_and_messages, _offsets, _cluster, _further, _attributes, _ends)
    return [command for part in parts for command in part(place)]


def _topics_and_messages(place: Place) -> Iterator[list[str]]:
    at, here = ["-n", place.names], ["-b", place.broker]
    of_topic = [] if place.version.startswith("4") else ["-t", "made"]
    unique = f"{FIRST_UNIQUE_KEY}01"
    cq = ["queryCq", *at, *here, "-t", "made", "-q", "1", "-i", "0", "-c", "5"]
    by_key = ["queryMsgByUniqueKey", *at, "-t", "made", "-i", unique]
    yield from (["clusterList", *at], ["clusterList", *at, "-m"])
    yield ["updateTopic", *at, "-c", "RF", "-t", "made", "-r", "2", "-w", "2"]
    yield from (["updateTopic", *at, *here, "-t", "other"], ["updateTopic", *at, *here, "-t", "bad name"])
    yield ["updateTopic", *at, *here, "-t", "TBW102"]
    yield ["updateTopicPerm", *at, *here, "-t", "other", "-p", "4"]
    yield from (["topicList", *at], ["topicList", *at, "-c"])
    yield from ([one, *at, "-t", "made"] for one in ("topicRoute", "topicClusterList"))
    yield from (["updateSubGroup", *at, *here, "-g", "readers"], ["updateSubGroup", *at, "-c", "RF", "-g", "copies"])
    yield ["@produce", "senders", "made", "1", "5"]
    yield ["topicStatus", *at, "-t", "made"]
    yield from (["@consume", "readers", "made", "5"], ["consumerProgress", *at, "-g", "readers"])
    yield from (["consumerProgress", *at], ["consumerConnection", *at, "-g", "readers"])
    yield from (["@join", "readers", "made"], ["consumerConnection", *at, "-g", "readers"])
    yield ["consumerStatus", *at, "-g", "readers"]
    yield ["consumerStatus", *at, "-g", "readers", "-i", "127.0.0.1@readers", "-s"]
    yield ["producerConnection", *at, "-g", "senders", "-t", "made"]
    yield from (["producer", *here],) if not place.version.startswith("4") else ()
    yield ["queryMsgById", *at, *of_topic, "-i", "MESSAGE_ID"]
    yield ["queryMsgByKey", *at, "-t", "made", "-k", "key1"]
    yield from (by_key, [*by_key, "-g", "readers", "-d", "127.0.0.1@readers"])
    yield ["queryMsgByOffset", *at, "-t", "made", "-b", "broker-a", "-i", "1", "-o", "2"]
    yield from (cq, [*cq, "-g", "readers"])
    yield from (["brokerConsumeStats", *at, *here], ["statsAll", *at, "-t", "made"])


def _offsets(place: Place) -> Iterator[list[str]]:
    at, here = ["-n", place.names], ["-b", place.broker]
    place_0 = ["-b", "broker-a", "-i", "0"]
    yield ["resetOffsetByTime", *at, "-g", "readers", "-t", "made", "-s", "0"]
    yield ["resetOffsetByTime", *at, "-g", "absent", "-t", "made", "-s", "now"]
    yield ["skipAccumulatedMessage", *at, "-g", "readers", "-t", "made"]
    yield ["cloneGroupOffset", *at, "-s", "readers", "-d", "copies", "-t", "made", "-o", "true"]
    yield ["sendMessage", *at, "-t", "made", "-p", "hello", "-k", "the-key", *place_0]
    yield ["consumeMessage", *at, "-t", "made", "-g", "viewers", *place_0, "-o", "0", "-c", "1"]
    yield ["printMsg", *at, "-t", "made"]
    yield ["printMsgByQueue", *at, "-t", "made", "-a", "broker-a", "-i", "1", "-p", "true", "-f", "true"]
    yield from (["checkMsgSendRT", *at, "-t", "made", "-a", "3", "-s", "10"],)
    yield ["sendMsgStatus", *at, "-b", "broker-a", "-c", "2"]
    yield ["getConsumerConfig", *at, "-g", "readers"]
    yield ["setConsumeMode", *at, *here, "-t", "made", "-g", "readers", "-m", "PULL"]
    yield ["setConsumeMode", *at, *here, "-t", "made", "-g", "readers", "-m", "POP"]


def _cluster(place: Place) -> Iterator[list[str]]:
    at, here = ["-n", place.names], ["-b", place.broker]
    yield from (["brokerStatus", *at, *here], ["getBrokerConfig", *at, *here], ["getNamesrvConfig", *at])
    yield ["updateBrokerConfig", *at, *here, "-k", "maxMessageSize", "-v", "4194304"]
    yield ["updateBrokerConfig", *at, *here, "-k", LISTED_KEY, "-v", "4"]
    yield from (["topicRoute", *at, "-t", "made"], ["updateBrokerConfig", *at, *here, "-k", LISTED_KEY, "-v", "6"])
    yield ["updateNamesrvConfig", *at, "-k", "clusterTest", "-v", "false"]
    yield ["updateKvConfig", *at, "-s", "NS", "-k", "key", "-v", "value"]
    yield ["deleteKvConfig", *at, "-s", "NS", "-k", "key"]
    order = ["updateOrderConf", *at, "-t", "made"]
    yield from ([*order, "-m", "put", "-v", "broker-a:4"], [*order, "-m", "get"], [*order, "-m", "delete"])
    yield from (["wipeWritePerm", *at, "-b", "broker-a"], ["topicRoute", *at, "-t", "made"])
    yield ["addWritePerm", *at, "-b", "broker-a"]
    yield ["allocateMQ", *at, "-t", "made", "-i", "127.0.0.1,127.0.0.2"]
    yield from ([one, *at, *here] for one in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"))
    yield ["haStatus", *at, *here]
    for one in ("exportMetadata", "exportConfigs", "exportMetrics"):
        yield [one, *at, "-c", "RF", "-f", "export"]
    yield from (["getColdDataFlowCtrInfo", *at, *here], ["checkRocksdbCqWriteProgress", *at, "-c", "RF"])


def _further(place: Place) -> Iterator[list[str]]:
    at, here = ["-n", place.names], ["-b", place.broker]
    yield ["updateTopic", *at, "-c", "RF", "-t", "ordered", "-r", "2", "-w", "2", "-o", "true"]
    yield from (["updateOrderConf", *at, "-t", "ordered", "-m", "get"], ["topicRoute", *at, "-t", "ordered"])
    yield ["updateTopicPerm", *at, "-c", "RF", "-t", "ordered", "-p", "2"]
    yield ["consumerProgress", *at, "-g", "readers", "-s", "true"]
    yield ["consumerProgress", *at, "-g", "absent"]
    yield ["updateTopic", *at, "-c", "RF", "-t", "traces", "-r", "1", "-w", "1"]
    yield ["@trace", "tracers", "made", "traces", str(TRACED)]
    yield ["queryMsgTraceById", *at, "-i", f"{FIRST_UNIQUE_KEY}{TRACED:02X}", "-t", "traces"]
    yield ["queryMsgTraceById", *at, "-i", f"{FIRST_UNIQUE_KEY}01", "-t", "traces"]
    yield ["deleteTopic", *at, "-c", "RF", "-t", "traces"]
    yield ["deleteTopic", *at, "-c", "RF", "-t", "ordered"]
    yield [RUN_FOR, "4", "clusterRT", *at, "-c", "RF", "-a", "3", "-s", "10", "-i", "2"]
    yield [RUN_FOR, "4", "startMonitoring", *at]
    if place.version.startswith("4"):
        return
    yield ["updateTopicList", *at, *here, "-f", TOPICS_FILE]
    yield ["updateSubGroupList", *at, *here, "-f", GROUPS_FILE]
    yield from (["topicRoute", *at, "-t", "listed"], ["deleteTopic", *at, "-c", "RF", "-t", "listed"])
    yield ["resetMasterFlushOffset", *at, *here, "-o", "0"]
    yield ["setCommitLogReadAheadMode", *at, *here, "-m", "1"]
    yield ["updateColdDataFlowCtrGroupConfig", *at, *here, "-g", "readers", "-v", "1000"]
    yield ["removeColdDataFlowCtrGroupConfig", *at, *here, "-g", "readers"]
    yield ["exportPopRecord", *at, *here, "-d", "true"]
    yield ["getBrokerEpoch", *at, "-b", "broker-a"]


def _attributes(place: Place) -> Iterator[list[str]]:
    at, here = ["-n", place.names], ["-b", place.broker]
    if place.version.startswith("4"):
        return
    typed = ["updateTopic", *at, *here, "-t", "typed"]
    yield from ([*typed, "-a", "+message.type=FIFO"], ["updateTopicPerm", *at, *here, "-t", "typed", "-p", "4"])
    wrong = ("+no.such=1", "+message.type=fifo", "+message.type=MIXED", "+queue.type=BatchCQ", "message.type=FIFO")
    yield from ([*typed, "-a", one] for one in ("-message.type", "-message.type", *wrong))
    yield ["updateSubGroup", *at, *here, "-g", "typed", "--attributes", "+no.such=1"]
    yield from (["getConsumerConfig", *at, "-g", one] for one in ("typed", "listed"))
    yield ["deleteSubGroup", *at, "-c", "RF", "-g", "listed", "-r", "true"]
    yield ["getConsumerConfig", *at, "-g", "listed"]


def _ends(place: Place) -> Iterator[list[str]]:
    at, here = ["-n", place.names], ["-b", place.broker]
    yield from (["deleteSubGroup", *at, *here, "-g", "copies"], ["getConsumerConfig", *at, "-g", "copies"])
    yield from (["deleteTopic", *at, "-c", "RF", "-t", "other"], ["topicList", *at])
    yield ["topicStatus", *at, "-t", "other"]
    if place.version.startswith("4"):
        yield from ([one, *at, *here] for one in ("getAclConfig", "clusterAclConfigVersion"))
        yield ["updateAclConfig", *at, *here, "-a", "account-1", "-s", "secret-key"]
        yield ["deleteAclConfig", *at, *here, "-a", "account-1"]
        yield ["updateGlobalWhiteAddr", *at, *here, "-g", "10.10.1.*"]


def of_users(place: Place) -> list[list[str]]:
    """Return the commands of a comparison of brokers with users and policies: good ones and bad ones."""
    at, bob, policies = ["-n", place.names, "-b", place.broker], ["-u", "bob"], ["-s", "User:bob"]
    allow = ["-a", "Pub,Sub", "-d", "Allow"]
    copied = ["-n", place.names, "-f", place.broker, "-t", place.broker]
    return [
        ["createUser", *at, *bob, "-p", "secret-of-bob", "-t", "Normal"],
        ["createUser", *at, *bob, "-p", "secret-of-bob"],
        ["createUser", *at, "-u", "eve", "-p", "secret-of-eve", "-t", "Super"],
        ["createUser", *at, "-u", "kim", "-p", "secret-of-kim", "-t", "Fancy"],
        ["listUser", *at],
        ["listUser", *at, "-f", "bo"],
        ["getUser", *at, *bob],
        ["getUser", *at, "-u", "absent"],
        ["updateUser", *at, *bob, "-s", "disable"],
        ["getUser", *at, *bob],
        ["updateUser", *at, *bob, "-s", "enable"],
        ["updateUser", *at, *bob, "-p", "another-secret"],
        ["updateUser", *at, "-u", "absent", "-s", "disable"],
        ["createAcl", *at, *policies, "-r", "Topic:t*,Group:g", *allow, "-i", "10.0.0.0/8"],
        ["createAcl", *at, *policies, "-r", "Topic:t", "-a", "Fly", "-d", "Allow"],
        ["createAcl", *at, *policies, "-r", "Nothing:t", *allow],
        ["createAcl", *at, "-s", "User:absent", "-r", "Topic:t", *allow],
        ["createAcl", *at, "-s", "bob", "-r", "Topic:t", *allow],
        ["listAcl", *at],
        ["listAcl", *at, "-s", "bob"],
        ["listAcl", *at, "-s", "bob", "-r", "Topic:t*"],
        ["getAcl", *at, *policies],
        ["getAcl", *at, "-s", "User:absent"],
        ["updateAcl", *at, *policies, "-r", "Group:g", "-a", "Sub", "-d", "Deny"],
        ["updateAcl", *at, *policies, "-r", "Topic:new", "-a", "Pub", "-d", "Allow"],
        ["getAcl", *at, *policies],
        ["copyUser", *copied, *bob],
        ["copyAcl", *copied, *policies],
        ["deleteAcl", *at, *policies, "-r", "Group:g"],
        ["deleteAcl", *at, *policies, "-r", "Topic:absent"],
        ["listAcl", *at, "-s", "bob"],
        ["deleteAcl", *at, *policies],
        ["getAcl", *at, *policies],
        ["deleteUser", *at, *bob],
        ["deleteUser", *at, *bob],
        ["listUser", *at],
    ]


def is_subcommand(command: Sequence[str]) -> bool:
    """Return whether a command is mqadmin's, not one of `java/AdminCommands.java` alone."""
    return command[0] == RUN_FOR or not command[0].startswith("@")


def lines_of(text: str, place: Place) -> Counter[str]:
    """Return the lines that a command printed, without their order, and without addresses, times, rates and stacks."""
    text = place.without_names(text.partition(_JSTACK)[0])
    found: Counter[str] = Counter()
    for line in text.splitlines():
        if not _LEFT.match(line):
            line = _ADDRESS.sub("CLIENT", line)
            for pattern, name in _CHANGING:
                line = pattern.sub(name, line)
            line = " ".join(line.split())
            if line:
                found[line] += 1
    return found


@dataclass(frozen=True)
class Compared:
    """The lines that a command printed on one side alone: explained ones by their reasons, and the others."""

    command: str
    explained: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def result(self) -> str:
        """Return `ok`, or `ok` with the reasons of differences, or `not ok` with what is left."""
        if self.left:
            return f"not ok {self.command}: {' | '.join(self.left)[:500]}"
        return " ".join(["ok", *self.explained])


def compared(command: str, own: Counter[str], apache: Counter[str], known: Differences) -> Compared:
    """Compare what a command printed at RocketFlow's servers and at Apache's."""
    explained: dict[str, None] = {}
    left = []
    for side, lines in (("RocketFlow", own - apache), ("Apache", apache - own)):
        for line in lines:
            reason = next(
                (why for one, pattern, why in known if fnmatchcase(f"{command}: {line}", f"{one}: {pattern}")), SAME
            )
            if reason == SAME:
                left.append(f"{side}: {line}")
            else:
                explained[reason] = None
    return Compared(command, tuple(explained), tuple(sorted(left)))

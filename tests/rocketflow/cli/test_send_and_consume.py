"""`rocketflow send` and `rocketflow consume` on a running NameServer and broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow.client import ClientOptions, ProducerOptions
from rocketflow.testing import Cluster, start_cluster
from tests.support.output_fields import check_fields
from tests.support.servers import running
from tests.support.trials import COMMAND_LINE, environment

Rows = list[dict[str, Any]]
Call = Callable[..., Rows]
END_SECONDS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster({"enablePropertyFilter": "true"}) as started:
        yield started


@pytest.fixture
def call(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Call:
    """Provide a call of a command in this process that returns its JSON lines."""

    def called(command: str, topic: str, *arguments: str, code: int = 0) -> Rows:
        capsys.readouterr()
        done = run([command, "-n", cluster.name_server_address, "--topic", topic, "--json", *arguments])
        found = capsys.readouterr()
        assert done == code, found.err
        return [json.loads(line) for line in found.out.splitlines()]

    return called


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients wait for servers that have just been started 0.2 s instead of 3 s."""
    wait_for(monkeypatch, 0.2)


def wait_for(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let clients wait so long for servers."""
    monkeypatch.setitem(ClientOptions.__init__.__kwdefaults__, "timeout_s", seconds)
    monkeypatch.setitem(ProducerOptions.__init__.__kwdefaults__, "send_timeout_s", seconds)


def started(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    """Start a command as a process with pipes."""
    command, *rest = words
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND_LINE, command, "-n", cluster.name_server_address, *rest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )


def bodies(rows: Rows) -> list[str]:
    return [one["body"] for one in rows]


def test_message_comes_back_as_the_store_has_it(
    cluster: Cluster, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = cluster.create_topic(queues=1)
    (sent,) = call("send", topic, "käse", "--tag", "paid", "--keys", "o-1 o-2", "--property", "city=Köln")
    (found,) = call("consume", topic)
    assert (sent["status"], sent["msgId"], sent["uniqKey"]) == ("SEND_OK", found["msgId"], found["uniqKey"])
    assert (found["body"], found["tags"], found["keys"]) == ("käse", "paid", "o-1 o-2")
    assert found["properties"]["city"] == "Köln"
    check_fields("consume", found, absent={"bodyError"})
    store = str(cluster.directory / "store")
    assert run(["store", "cat", store, "--topic", topic, "--json"]) == 0
    (stored,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found == {**stored, "brokerName": "broker-a"}


def test_json_lines_are_sent_and_refused_ones_are_reported(cluster: Cluster, call: Call, tmp_path: Path) -> None:
    topic = cluster.create_topic(queues=1)
    lines = [
        {"body": "first", "tags": "own", "properties": {"a": "1"}},
        {"bodyBase64": "AAE=", "flag": 7},
        {"body": {"order": 1}, "keys": ["k"]},
        {"body": "x", "queueId": 1},
        {"body": "x" * (4 * 1024 * 1024 + 1)},
        {"body": "last"},
    ]
    file = tmp_path / "lines"
    file.write_text("\n".join([*map(json.dumps, lines), "{", ""]))
    sent = call("send", topic, "--format", "json", "--input", str(file), "--tag", "given", code=1)
    assert [one.get("line") for one in sent if one["status"] == "MESSAGE_ILLEGAL"] == [4, 7, 5]
    assert sum(one["status"] == "SEND_OK" for one in sent) == 4
    check_fields("send", *sent)
    found = {one["body"]: one for one in call("consume", topic)}
    assert set(found) == {"first", "\0\1", '{"order": 1}', "last"}
    assert [one["tags"] for one in found.values()].count("own") == 1
    assert (found["\0\1"]["flag"], found["last"]["tags"], found["first"]["properties"]["a"]) == (7, "given", "1")


def test_messages_of_a_sharding_key_stay_in_order(cluster: Cluster, call: Call, tmp_path: Path) -> None:
    topic = cluster.create_topic(queues=4)
    file = tmp_path / "lines"
    lines = [{"body": f"{number}", "shardingKey": f"key-{number % 7}"} for number in range(700)]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert len(call("send", topic, "--format", "json", "--input", str(file))) == 700
    numbers, queues = defaultdict(list), defaultdict(set)
    for one in call("consume", topic):
        key = one["properties"]["__SHARDINGKEY"]
        numbers[key].append(int(one["body"]))
        queues[key].add(one["queueId"])
    assert {key: sorted(found) for key, found in numbers.items()} == numbers
    assert sum(map(len, numbers.values())) == 700
    assert {len(one) for one in queues.values()} == {1}


def test_group_goes_on_where_it_stopped(cluster: Cluster, call: Call) -> None:
    topic = cluster.create_topic(queues=2)
    call("send", topic, "same", "--count", "10")
    first = call("consume", topic, "-g", "readers", "--max", "3")
    rest = call("consume", topic, "-g", "readers")
    places = [(one["queueId"], one["queueOffset"]) for one in first + rest]
    assert (len(first), len(places), len(set(places))) == (3, 10, 10)
    assert call("consume", topic, "-g", "readers") == []
    assert len(call("consume", topic)) == 10


def test_messages_are_selected_by_start_tag_and_condition(cluster: Cluster, call: Call) -> None:
    topic = cluster.create_topic(queues=1)
    call("send", topic, "one", "--tag", "a", "--property", "size=1")
    call("send", topic, "two", "--tag", "b", "--property", "size=2")
    (_, second) = call("consume", topic)
    assert bodies(call("consume", topic, "--from", str(second["storeTimestamp"]))) in (["two"], ["one", "two"])
    assert call("consume", topic, "--from", "last") == []
    assert bodies(call("consume", topic, "--tags", "b || c")) == ["two"]
    assert bodies(call("consume", topic, "--sql", "size < 2")) == ["one"]
    assert "body" not in call("consume", topic, "--body", "none")[0]
    assert bodies(call("consume", topic, "-g", "late", "--from", "first", "--max", "1")) == ["one"]


def test_last_messages_are_the_newest_of_all_queues(cluster: Cluster, call: Call) -> None:
    topic = cluster.create_topic(queues=3)
    for number in range(9):
        call("send", topic, str(number), "--tag", "rare" if number in (0, 1, 4) else "common")
    assert sorted(bodies(call("consume", topic, "--last", "4"))) == ["5", "6", "7", "8"]
    times = [one["storeTimestamp"] for one in call("consume", topic, "--tail", "9")]
    assert (len(times), times) == (9, sorted(times))
    assert len(call("consume", topic, "--last", "50")) == 9
    assert sorted(bodies(call("consume", topic, "--last", "2", "--tags", "rare"))) == ["1", "4"]
    assert call("consume", topic, "--last", "2", "--tags", "none") == []
    (begun,) = call("consume", topic, "--last", "1")
    assert bodies(call("consume", topic, "--begin", str(begun["storeTimestamp"])))[-1:] == ["8"]
    with started(cluster, "consume", "--topic", topic, "--json", "--last", "2", "--follow") as reading:
        assert reading.stdout is not None
        assert [json.loads(reading.stdout.readline())["body"] for _ in range(2)] == ["7", "8"]
        call("send", topic, "new")
        assert json.loads(reading.stdout.readline())["body"] == "new"
        reading.send_signal(signal.SIGTERM)
        assert reading.wait(END_SECONDS) == 128 + signal.SIGTERM


def test_delayed_message_comes_later(cluster: Cluster, call: Call) -> None:
    topic = cluster.create_topic(queues=1)
    call("send", topic, "later", "--delay-level", "1")
    (found,) = call("consume", topic, "--follow", "--max", "1")
    assert found["storeTimestamp"] - found["bornTimestamp"] >= 900


def test_line_does_not_wait_for_the_next_one(cluster: Cluster) -> None:
    topic = cluster.create_topic(queues=1)
    with started(cluster, "send", "--topic", topic, "--json") as sending:
        assert sending.stdin is not None
        assert sending.stdout is not None
        for number in range(2):
            sending.stdin.write(f"line {number}\n")
            sending.stdin.flush()
            assert json.loads(sending.stdout.readline())["queueOffset"] == number
        sending.send_signal(signal.SIGTERM)
        assert sending.wait(END_SECONDS) == 128 + signal.SIGTERM


def test_interrupted_consumer_commits_what_it_printed(cluster: Cluster, call: Call) -> None:
    topic = cluster.create_topic(queues=1)
    call("send", topic, "before", "--count", "5")
    with started(cluster, "consume", "--topic", topic, "-g", "printers", "--json", "--follow") as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        printed = [json.loads(reading.stdout.readline()) for _ in range(5)]
        reading.send_signal(signal.SIGINT)
        assert reading.wait(END_SECONDS) == 128 + signal.SIGINT
        assert reading.stderr.read() == "", "Ctrl-C is the end that --follow has"
    call("send", topic, "after")
    assert [one["queueOffset"] for one in printed] == [0, 1, 2, 3, 4]
    assert bodies(call("consume", topic, "-g", "printers")) == ["after"]


def test_text_of_both_commands(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("-n", cluster.name_server_address, "--topic", cluster.create_topic("texts", queues=1))
    assert run(["send", *at, "hello", "--count", "2"]) == 0
    assert capsys.readouterr().out == "texts: 2 messages stored\n"
    assert run(["consume", *at]) == 0
    head, first, _ = capsys.readouterr().out.splitlines()
    assert head.split() == ["topic", "queueId", "queueOffset", "storeTimestamp", "tags", "keys", "bodySize", "body"]
    assert first.split()[-2:] == ["5", "hello"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["send", "--topic", "t", "x", "--property", "a"], 2, "--property a: NAME=VALUE is expected"),
        (["send", "--topic", "t", "--count", "2"], 2, "--count needs BODY"),
        (["send", "--topic", "t", "--input", "/missing"], 2, "--input /missing: No such file"),
        (["send", "--topic", "a/b", "x"], 1, "a/b"),
        (["send", "x"], 2, "Missing option '--topic'"),
        (["consume", "--topic", "missing"], 1, "topic 'missing' has no route"),
        (["consume", "--topic", "t", "--tags", "a", "--sql", "b"], 2, "--tags and --sql exclude each other"),
        (["consume", "--topic", "t", "--from", "soon"], 2, "'soon' is not a valid time"),
        (["consume", "--topic", "t", "--last", "2", "-g", "g"], 2, "--last excludes -g, --max, --begin and --from"),
        (["consume", "--topic", "t", "--begin", "1", "--from", "last"], 2, "--begin and --from exclude each other"),
    ],
)
def test_bad_input_is_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], words: list[str], code: int, text: str
) -> None:
    assert run([*words, "-n", cluster.name_server_address]) == code
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert text in said


@pytest.mark.parametrize(
    "words",
    [
        ["send", "--topic", "t", "x", "--count", "20"],
        ["consume", "--topic", "t"],
        ["consume", "--topic", "t", "-g", "g", "--follow"],
        ["admin", "topicList"],
    ],
)
def test_name_server_that_is_away_ends_a_command_with_one_line_and_69(
    capsys: pytest.CaptureFixture[str], short_waits: None, words: list[str]
) -> None:
    assert run([*words, "-n", "127.0.0.1:1"]) == 69
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: no NameServer answers: 127.0.0.1:1: ")
    assert line.endswith("or start one, 'rocketflow namesrv' for example")


@pytest.mark.parametrize("words", [["send", "--topic", "t", "x", "--count", "20"], ["consume", "--topic", "t"]])
def test_cluster_without_brokers_ends_a_command_with_one_line_and_69(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    wait_for(monkeypatch, 2.0)  # so long the NameServer has for its answer, too
    with running("namesrv", tmp_path) as names:
        assert run([*words, "-n", names.address]) == 69
        (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: no broker has registered at {names.address} within 2 s: ")
    assert line.endswith(f"start one, 'rocketflow broker -n {names.address}' for example")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:70000", "127.0.0.1:1;:9876"])
@pytest.mark.parametrize(
    "words", [["send", "--topic", "t", "x"], ["consume", "--topic", "t"], ["admin", "topicList"], ["broker"]]
)
def test_text_that_is_no_address_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], words: list[str], address: str
) -> None:
    assert run([*words, "-n", address]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "is no address of a NameServer: host:port is expected" in said

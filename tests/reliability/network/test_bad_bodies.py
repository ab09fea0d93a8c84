"""Row N09: bodies that are not what their flags say are stored as they are, and every reader has one policy for them.

RocketMQ's broker accepts them too. Its Java client loses such a message and all after it in the same answer.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet
import pytest

from rocketflow.aio.loop import run
from rocketflow.arrow import sync
from rocketflow.cli.app import run as command
from rocketflow.client import ConsumeFrom, PullOptions
from rocketflow.client.sync import PullConsumer
from rocketflow.spark.source.batch_reader import RocketFlowBatchReader
from rocketflow.spark.source.columns import Projection, source_schema
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow_store import DamagedBodyError, RaiseFaults, SkipFaults, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.bad_bodies import BATCHES, MESSAGES, Sent, send_messages
from tests.support.planned_query import PlannedQuery
from tests.support.pushing import Noted, committed, consuming, make_topic, options, small_cluster, until
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, store_of

pytestmark = pytest.mark.slow

TOPIC: Final = "bodies"
Rows = list[tuple[int, bytes]]
Reader = Callable[["Servers", str, dict[str, str]], Rows]
GOOD: Final = [(at, one.plain) for at, one in enumerate(MESSAGES) if one.plain is not None]
RAW: Final = [(at, one.body if one.plain is None else one.plain) for at, one in enumerate(MESSAGES)]
BAD: Final = [at for at, one in enumerate(MESSAGES) if one.plain is None]
FIRST: Final = BAD[0]


class Servers:
    """A NameServer, and a broker that has the messages."""

    def __init__(self, names: RunningServer, broker: RunningServer) -> None:
        self.names, self.address = names.address, broker.address
        self.store = store_of(broker)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with small_cluster(tmp_path_factory.mktemp("bodies")) as (names, broker):
        run(make_topic(names.address, TOPIC, queues=1))
        run(make_topic(names.address, "batches", queues=1, attributes={"queue.type": "BatchCQ"}))
        run(send_messages(broker.address, TOPIC))
        run(send_messages(broker.address, "batches", BATCHES))
        yield Servers(names, broker)
        no_traceback(broker)


def _rows(batches: Any) -> Rows:
    return sorted((row["queueOffset"], row["body"]) for batch in batches for row in batch.to_pylist())


def _store(servers: Servers, policy: str, more: dict[str, str]) -> Rows:
    with StoreReader(servers.store) as reader:
        return _rows(reader.read(TOPIC, 0, 0, len(MESSAGES), tags=more.get("tags"), faults=RaiseFaults(policy)))


def _lenient_store(servers: Servers, policy: str, more: dict[str, str]) -> Rows:
    faults = SkipFaults(on_bad_body=policy)
    with StoreReader(servers.store) as reader:
        found = _rows(reader.read(TOPIC, 0, 0, len(MESSAGES), tags=more.get("tags"), faults=faults))
    assert faults.count == (len(BAD) if policy == "quarantine" and not more else 0)
    return found


def _batch(servers: Servers, place: dict[str, str], policy: str, more: dict[str, str]) -> Rows:
    asked = {"subscribe": TOPIC, **place, "onBadBody": policy, **more}
    schema = source_schema(False, policy == "raw")
    reader = RocketFlowBatchReader(SourceOptions.parse(asked, streaming=False), Projection.of(schema))
    return _rows(batch for part in reader.partitions() for batch in reader.read(part))


def _stream(path: Path | None, place: dict[str, str], policy: str, more: dict[str, str]) -> Rows:
    query = PlannedQuery(path, subscribe=TOPIC, onBadBody=policy, failOnDataLoss="false", **place, **more)
    query.drain()
    return sorted((offset, body) for _, _, offset, body in query.rows)


def _arrow(servers: Servers, policy: str, more: dict[str, str]) -> Rows:
    asked = PullOptions(group="arrow", name_servers=servers.names, start=ConsumeFrom.FIRST, auto_commit=False)
    with PullConsumer(asked) as consumer:
        (queue,) = consumer.queues(TOPIC)
        consumer.assign([queue], more.get("tags", "*"))
        consumer.seek_to_begin(queue)
        found: list[Any] = []
        while consumer.position(queue) < len(MESSAGES):
            found += sync.pull_arrow(consumer, ["queueOffset", "body"], on_bad_body=policy)  # type: ignore[arg-type]
    return _rows(found)


READERS: Final[dict[str, Reader]] = {
    "store": _store,
    "store that skips damage": _lenient_store,
    "Spark batch by path": lambda servers, *asked: _batch(servers, {"path": str(servers.store)}, *asked),
    "Spark batch over the network": lambda servers, *asked: _batch(servers, {"namesrvAddr": servers.names}, *asked),
    "Spark stream by path": lambda servers, *asked: _stream(servers.store, {}, *asked),
    "Spark stream over the network": lambda servers, *asked: _stream(None, {"namesrvAddr": servers.names}, *asked),
    "pull_arrow": _arrow,
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_fails_returns_the_stored_body_or_skips_the_message(
    servers: Servers, name: str, tally: Callable[..., Tally]
) -> None:
    counts, read = tally("N09", name), READERS[name]
    with pytest.raises(DamagedBodyError) as raised:
        read(servers, "fail", {})
    said = str(raised.value)
    assert f"topic {TOPIC}, queue 0, queue offset {FIRST}" in said
    assert "onBadBody" in said
    assert raised.value.exit_code == 1
    assert read(servers, "raw", {}) == RAW
    assert read(servers, "quarantine", {}) == GOOD
    counts.trials = counts.hits = len(MESSAGES)


@pytest.mark.parametrize("name", READERS)
def test_a_filter_that_does_not_select_such_messages_does_not_need_their_bodies(servers: Servers, name: str) -> None:
    filters = [{"tags": "good"}]
    if name.startswith("Spark"):
        numbers = ", ".join(f"'{at}'" for at, _ in GOOD)
        filters.append({"sql": f"n IN ({numbers})"})
    for more in filters:
        assert [at for at, _ in READERS[name](servers, "fail", more)] == [at for at, _ in GOOD], more


def _lines(capsys: pytest.CaptureFixture[str], *arguments: object, code: int) -> tuple[list[dict[str, Any]], str]:
    """Return the JSON lines of a command and its stderr."""
    capsys.readouterr()
    ended = command([str(one) for one in arguments])
    out, err = capsys.readouterr()
    assert ended == code, err
    assert "Traceback" not in err
    return [json.loads(line) for line in out.splitlines()], err


def _decoded(line: dict[str, Any]) -> tuple[int, bytes | None]:
    return line["queueOffset"], None if line["body"] is None else base64.b64decode(line["body"])


def test_commands_of_a_store_show_the_stored_body_or_skip_it(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cat = ("store", "cat", servers.store, "--topic", TOPIC, "--json", "--body", "base64")
    lines, err = _lines(capsys, *cat, code=3)
    assert [_decoded(line) for line in lines] == [(at, one.plain) for at, one in enumerate(MESSAGES)]
    assert all(one.why in line.get("bodyError", "") for one, line in zip(MESSAGES, lines, strict=True))
    assert f"queue 0, offset {FIRST}: body: does not decompress as zlib" in err
    assert f"(topic {TOPIC}; --on-bad-body raw" in err
    lines, err = _lines(capsys, *cat, "--on-bad-body", "raw", code=0)
    assert [_decoded(line) for line in lines] == RAW
    assert [at for at, line in enumerate(lines) if "bodyError" in line] == BAD
    lines, err = _lines(capsys, *cat, "--on-bad-body", "quarantine", code=3)
    assert [_decoded(line) for line in lines] == GOOD
    assert err.count("the message is skipped") == len(BAD)
    place = _places(servers)[FIRST]
    find = ("store", "find", servers.store, "--physical-offset", place, "--json", "--body", "base64")
    lines, _ = _lines(capsys, *find, "--on-bad-body", "raw", code=0)
    assert [_decoded(line) for line in lines] == [RAW[FIRST]]
    export = ("store", "export", servers.store, "--topic", TOPIC, "--to", tmp_path, "--force", "--json")
    _, err = _lines(capsys, *export, code=1)
    assert f"queue offset {FIRST}" in err
    assert "--on-bad-body" in err
    for policy, rows, code in (("raw", RAW, 0), ("quarantine", GOOD, 3)):
        ((done,), _) = _lines(capsys, *export, "--on-bad-body", policy, code=code)
        assert (done["rows"], done["leftOut"]) == (len(rows), len(MESSAGES) - len(rows))
        table = pyarrow.parquet.read_table(done["files"][0])
        assert list(zip(table["queueOffset"].to_pylist(), table["body"].to_pylist(), strict=True)) == rows
        assert ("bodyError" in table.schema.names) == (policy == "raw")


def _places(servers: Servers) -> list[int]:
    with StoreReader(servers.store) as reader:
        batches = reader.read(TOPIC, 0, 0, len(MESSAGES), ["physicalOffset"])
        return [int(one) for batch in batches for one in batch.column(0).to_pylist()]


def test_consume_stops_before_such_a_message_shows_it_or_skips_it(
    servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    def consume(group: str, *more: str, code: int) -> tuple[list[dict[str, Any]], str]:
        asked = ("consume", "-n", servers.names, "--topic", TOPIC, "-g", group, "--json", "--body", "base64")
        return _lines(capsys, *asked, *more, code=code)

    before = GOOD[:FIRST]
    lines, err = consume("stops", code=1)
    assert [_decoded(line) for line in lines] == before
    assert f"topic {TOPIC}, queue 0, queue offset {FIRST}" in err
    assert "--on-bad-body" in err
    lines, _ = consume("stops", code=1)
    assert lines == [], "the group has what was printed, and nothing after it"
    lines, err = consume("stops", "--on-bad-body", "raw", code=0)
    assert [_decoded(line) for line in lines] == RAW[FIRST:]
    assert [line["queueOffset"] for line in lines if "bodyError" in line] == BAD
    lines, err = consume("leaves", "--on-bad-body", "quarantine", code=3)
    assert [_decoded(line) for line in lines] == GOOD
    assert err.count("the message is skipped") == len(BAD)


def test_a_get_returns_the_stored_body_and_raises_for_the_other(servers: Servers) -> None:
    with StoreReader(servers.store) as reader:
        messages = reader.get_message(TOPIC, 0, 0, len(MESSAGES)).messages
    assert [one.stored_body for one in messages] == [one.body for one in MESSAGES]
    for sent, message in zip(MESSAGES, messages, strict=True):
        if sent.plain is not None:
            assert (message.body, message.body_error) == (sent.plain, "")
            continue
        assert sent.why in message.body_error
        with pytest.raises(DamagedBodyError, match=f"topic {TOPIC}, queue 0, queue offset {message.queue_offset}"):
            _ = message.body


def _is_received(sent: tuple[Sent, ...], messages: list[ReceivedMessage]) -> None:
    """Check that each message was received once, those that cannot be decoded as they are stored, with the reason."""
    assert [one.queue_offset for one in messages] == list(range(len(sent)))
    for one, message in zip(sent, messages, strict=True):
        assert bool(message.body_error) == (one.plain is None), one.label
        assert (message.stored_body if one.plain is None else message.body) == (one.plain or one.body), one.label
        of_batch = one.plain is not None and one.sys_flag & 0xC0 == 0xC0  # its messages are stored without compression
        assert message.sys_flag & 0x7C1 == (one.sys_flag & ~1 if of_batch else one.sys_flag), one.label


def test_clients_give_the_stored_body_and_the_reason_to_the_application(servers: Servers) -> None:
    """A message after such a one is not lost, and no queue stands still."""

    async def pushed() -> list[ReceivedMessage]:
        noted = Noted()
        async with consuming(options(servers.names, "pushed"), noted, TOPIC, "batches"):
            await until(lambda: len(noted.messages) >= len(MESSAGES) + len(BATCHES))
        for topic, sent in ((TOPIC, MESSAGES), ("batches", BATCHES)):
            offsets = await committed(servers.names, "pushed", topic)
            assert list(offsets.values()) == [len(sent)]
        return noted.messages

    found = run(pushed())
    polled: list[ReceivedMessage] = []
    with PullConsumer(PullOptions(group="polled", name_servers=servers.names, start=ConsumeFrom.FIRST)) as consumer:
        consumer.subscribe(TOPIC)
        consumer.subscribe("batches")
        while len(polled) < len(MESSAGES) + len(BATCHES):
            polled += consumer.poll()
    for messages in (found, polled):
        for topic, sent in ((TOPIC, MESSAGES), ("batches", BATCHES)):
            mine = [one for one in messages if one.topic == topic]
            _is_received(sent, sorted(mine, key=lambda one: one.queue_offset))


@pytest.mark.parametrize("place", ["path", "namesrvAddr"])
def test_a_batch_that_is_none_is_one_message_of_its_queue(servers: Servers, place: str) -> None:
    asked = {place: str(servers.store) if place == "path" else servers.names, "subscribe": "batches"}
    raw = [(at, one.body if one.plain is None else one.plain) for at, one in enumerate(BATCHES)]
    assert _batch(servers, asked, "raw", {}) == raw
    assert _batch(servers, asked, "quarantine", {}) == [raw[at] for at, one in enumerate(BATCHES) if one.plain]
    with pytest.raises(DamagedBodyError, match=r"topic batches, queue 0, queue offset [23]"):
        _batch(servers, asked, "fail", {})


def test_verify_lists_such_messages_and_nothing_is_lost(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = verify_store(servers.store)
    mine = [one for one in found.findings if one.kind == "bad-body" and f"topic {TOPIC}," in one.detail]
    assert [one.kind for one in found.findings] == ["bad-body"] * len(found.findings)
    assert (found.lost_records, found.exit_code) == (0, 1)
    places = _places(servers)
    assert [one.offset for one in mine] == [places[at] for at in BAD]
    for at, one in zip(BAD, mine, strict=True):
        assert f"queue 0, queue offset {at}: " in one.detail
        assert MESSAGES[at].why in one.detail
    others = [one.detail.split(": ")[0] for one in found.findings if one not in mine]
    assert others == [f"topic batches, queue 0, queue offset {at}" for at in (2, 3)]
    accept = tmp_path / "accepted"
    assert command(["store", "verify", str(servers.store), "--accept", str(accept)]) == 1
    assert command(["store", "verify", str(servers.store), "--accept", str(accept)]) == 0

"""Row P19: forged parts never reach the log of a broker; what others sent after them outlives a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.store_client import StoreClient
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.rocketflow import StagePartRequestHeader
from rocketflow.remoting.store_bodies import (
    CommitBatchBody,
    CommitProgressBody,
    CommitResultBody,
    EnvelopeBody,
    PartBody,
    StoreBody,
)
from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.support.forged_parts import Forgery, forged_part, forgeries
from tests.support.results import Tally
from tests.support.servers import RunningServer, running_broker, send, store_of

MOST = 4_000
FILE_SIZE = 64 << 10
RIGHT = Forgery("nothing", "")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningServer]:
    settings = ("flushDiskType=ASYNC_FLUSH", f"maxMessageSize={MOST}", f"mappedFileSizeCommitLog={FILE_SIZE}")
    with running_broker(tmp_path, *settings) as found:
        yield found


def staged(client: StoreClient, sink: str, name: str, kind: Forgery) -> PartBody:
    """Send the bytes of a part, and return what the commit says of it."""
    part, data = forged_part("forged", kind)
    header = StagePartRequestHeader(sink_id=sink, batch_id=0, run_id="run", file=name, size=len(data))
    client.stage(header, data)
    return PartBody(
        file=name,
        rows=part.rows,
        size=part.size,
        crc=part.crc,
        digest=None if part.digest is None else f"{part.digest:016x}",
        topics=list(part.topics),
        property_crc=part.property_crc,
    )


def answered(client: StoreClient, code: RequestCode, body: StoreBody, answer: Any) -> tuple[int, str]:
    try:
        client.ask(code, body, answer)
    except RequestRefusedError as error:
        return error.code, str(error.remark)
    return 0, ""


def committed(client: StoreClient, sink: str, parts: list[PartBody]) -> tuple[int, str]:
    body = CommitBatchBody(sink_id=sink, query_id=sink, batch_id=0, run_id="run", run_seq=1, parts=parts, sync=False)
    return answered(client, RequestCode.ROCKETFLOW_COMMIT_BATCH, body, CommitResultBody)


def progressed(client: StoreClient, sink: str, parts: list[PartBody]) -> tuple[int, str]:
    body = CommitProgressBody(sink_id=sink, run_id="run", progress={}, parts=parts, queues={}, sync=False)
    return answered(client, RequestCode.ROCKETFLOW_COMMIT_PROGRESS, body, EnvelopeBody)


def stored(path: Path, topic: str) -> list[str]:
    with StoreReader(path) as reader:
        return [
            body.decode()
            for queue in reader.queues(topic)
            for rows in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body"])
            for body in rows.column(0).to_pylist()
        ]


def test_forged_parts_are_refused_and_later_messages_outlive_a_kill(
    broker: RunningServer, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("P19", "every kind")
    client = StoreClient(broker.address)
    kinds = forgeries("forged", MOST, FILE_SIZE)
    send(broker, "others", ["before"])
    with client.connected():
        end = client.info().max_phy_offset
        for number, kind in enumerate(kinds):
            for code, ask in ((30001, committed), (30003, progressed)):
                if code == 30003 and not kind.in_progress:
                    continue
                sink = f"sink{number}-{code}"
                parts = [staged(client, sink, "right", RIGHT), staged(client, sink, "forged", kind)]
                found, why = ask(client, sink, parts)
                assert found == kind.code, (kind.name, code, found, why)
                assert kind.code == 1 or (kind.why in why and "/forged" in why), (kind.name, why)
                counts.trial(None, kind.name)
        assert client.info().max_phy_offset == end
        assert committed(client, "right", [staged(client, "right", "part", RIGHT)]) == (0, "")
    for number in range(0, 200, 50):
        send(broker, "others", [str(one) for one in range(number, number + 50)])
    broker.kill()
    with running_broker(tmp_path, "flushDiskType=ASYNC_FLUSH") as again:
        path = store_of(again)
        assert stored(path, "others") == ["before", *map(str, range(200))]
        assert stored(path, "forged") == ["row"] * 3
        again.stop_in_order()
    assert verify_store(path).findings == []


@pytest.mark.parametrize(
    "name", ["part\n", "a\nb", "\x07", "..", ".hidden", "a/b", "a\\b", "é", "", "x" * 300, "part\x00"]
)
def test_part_name_that_is_no_plain_name_makes_no_file(
    broker_of_names: tuple[RunningServer, StoreClient], name: str
) -> None:
    broker, client = broker_of_names
    staging = store_of(broker) / "rocketflow" / "staging"
    header = StagePartRequestHeader(sink_id="names", batch_id=0, run_id="run", file="x", size=3)
    with pytest.raises(RequestRefusedError):
        client.stage(msgspec.structs.replace(header, file=name), b"abc")
    for sink in (name, f".{name}", "sink\n", ".", "..") if name else ("..",):
        with pytest.raises(RequestRefusedError):
            client.stage(msgspec.structs.replace(header, sink_id=sink), b"abc")
        assert answered(
            client,
            RequestCode.ROCKETFLOW_COMMIT_BATCH,
            CommitBatchBody(sink_id=sink, query_id="q", batch_id=0, run_id="run", run_seq=1, parts=[]),
            CommitResultBody,
        )[0]
    assert not [one for one in staging.rglob("*") if one.is_file()]
    assert sorted(one.name for one in staging.parent.iterdir() if one.is_dir()) in ([], ["staging"], ["staging", "tmp"])


@pytest.fixture(scope="module")
def broker_of_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, StoreClient]]:
    with running_broker(tmp_path_factory.mktemp("names")) as found:
        client = StoreClient(found.address)
        with client.connected():
            yield found, client
        found.stop_in_order()


def test_run_id_that_names_no_file_is_refused(broker_of_names: tuple[RunningServer, StoreClient]) -> None:
    _, client = broker_of_names
    for run_id, why in (("", "runId"), ("\U0001f600" * 100, "runId"), ("r" * 200, "runId")):
        with pytest.raises(RequestRefusedError, match=why):
            client.stage(StagePartRequestHeader(sink_id="runs", batch_id=0, run_id=run_id))
    assert client.stage(StagePartRequestHeader(sink_id="runs", batch_id=0, run_id="a/b\n..")) == 1

"""Spark calls `abort` with the same messages after a commit that raised: what is in the log stays, each row once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from rocketflow.client.store_client import AnswerLostError, StoreClient
from rocketflow.spark.sink import writers
from rocketflow.spark.sink.sink_options import SinkOptions
from rocketflow.spark.sink.writers import StreamWriter
from rocketflow_store import StoreError, StoreReader
from tests.support.lost_answers import answers_lost
from tests.support.network_stores import Brokers, brokers

ROWS = 50
ROUNDS = 2
LOST = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("abort")) as found:
        found.start("a")
        yield found


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the writers the context of a task of a query `q`."""
    names = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "0", "spark.jobGroup.id": "run"}
    context = SimpleNamespace(getLocalProperty=names.get, partitionId=lambda: 0, taskAttemptId=lambda: 0)
    monkeypatch.setattr(writers, "TaskContext", SimpleNamespace(get=lambda: context))


def batch() -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(ROWS)]})


ASK = StoreClient.ask


def answer_lost(client: StoreClient, *request: Any) -> None:
    """Let the broker carry out a request, and lose its answer."""
    ASK(client, *request)
    raise AnswerLostError("the connection ended")


@pytest.mark.parametrize("by", ["path", "path beside the broker", "network"])
def test_abort_after_a_commit_whose_answer_was_lost_deletes_nothing_that_is_committed(
    cluster: Brokers, by: str, tmp_path: Path
) -> None:
    broker = cluster.running["a"]
    path = tmp_path / "s" if by == "path" else cluster.store("a")
    topic = by.replace(" ", "-")
    given = {"topic": topic, "sinkId": f"sink-{topic}", "queues": "1", "networkTimeout": "1s"}
    where = {"namesrvAddr": cluster.address} if by == "network" else {"path": str(path)}
    if by != "network":
        given.pop("networkTimeout")
    options = SinkOptions.parse({**given, **where})
    for _ in range(ROUNDS):  # the batch comes again, because its commit raised
        writer = StreamWriter(options, broker.address if by == "network" else None)
        messages = [writer.write(batch())]
        with ExitStack() as stack:
            if by == "path":
                writer.commit(messages, 0)
            elif by == "network":
                stack.enter_context(pytest.MonkeyPatch.context()).setattr(StoreClient, "ask", answer_lost)
                with pytest.raises(StoreError):
                    writer.commit(messages, 0)
            else:
                stack.enter_context(answers_lost(broker, LOST))
                with pytest.raises(StoreError):
                    writer.commit(messages, 0)
        writer.abort(messages, 0)
        with StoreReader(path) as reader:
            stored = [one for part in reader.read(topic, 0, 0, ROWS, ["body"]) for one in part["body"].to_pylist()]
            assert reader.max_offset(topic, 0) == ROWS
        assert stored == [b"%d" % number for number in range(ROWS)]

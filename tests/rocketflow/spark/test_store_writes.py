"""Writes beside a broker process that has locked the store: each once, whatever happens to the broker."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketflow import store_writes
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import NoRouteError
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.store_bodies import CommitBatchBody, PartBody
from rocketflow.spark.requeue.requeue_arguments import parse_arguments
from rocketflow.spark.requeue.requeue_job import preflight, run_without_spark
from rocketflow_store import (
    FlushDiskType,
    Message,
    MessageStore,
    StoreConfig,
    StoreLockedError,
    StoreReader,
)
from rocketflow_store.commits.batch_commit import (
    CheckpointWentBackError,
    CommitResult,
    CommitStatus,
    ReplayMismatchError,
    SinkBatch,
    SupersededRunError,
)
from rocketflow_store.commits.progress_commit import ProgressBatch, ProgressMovedError
from rocketflow_store.commits.staged_part import StagedPart, stage
from rocketflow_store.commits.staging_area import StagingArea
from rocketflow_store.metadata.native.broker_file import BrokerFile, read_broker_file, write_broker_file
from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope
from rocketflow_store.metadata.native.root_paths import RootPaths
from rocketflow_store.records.arrow.queue_turns import QueueTurns
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.support.lost_answers import answers_lost
from tests.support.ports import free_port
from tests.support.request_headers import send_header
from tests.support.servers import RunningServer, running, running_broker, store_of
from tests.support.signed import plain_broker
from tests.support.trials import COMMAND_LINE, LEVEL, environment

LARGE_ROWS = 64 << 10
"""Rows of 1,000 bytes: 64 MiB of records."""

SYNC = StoreConfig(flush_disk_type=FlushDiskType.SYNC_FLUSH)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a broker for the tests that leave it alive."""
    with running_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found
        found.stop_in_order()


def batch(path: Path, bodies: Sequence[bytes], topic: str, number: int = 0, **more: Any) -> SinkBatch:
    """Return a staged batch of sink `topic`, its rows in two parts, of which the second is a file."""
    staging = StagingArea(path, topic)
    encoder = BatchEncoder(SYNC, lambda _: 2, default_topic=topic, row_hashes=True)
    half = len(bodies) // 2
    parts = [
        stage(
            encoder.encode(
                pa.RecordBatch.from_pydict({"body": pa.array(some, pa.binary())}), 1, QueueTurns(lambda _: 0)
            ),
            staging.directory(number),
            "p",
            inline_bytes=limit,
        )
        for some, limit in ((bodies[:half], 1 << 20), (bodies[half:], 0))
        if some
    ]
    fields = {"query_id": "q", "run_id": "run", "run_seq": 1, **more}
    return SinkBatch(sink_id=topic, batch_id=number, parts=parts, **fields)


def commit(path: Path, one: SinkBatch, *, timeout_s: float = 60.0) -> CommitResult:
    return store_writes.commit(
        path, SYNC, lambda commits: commits.commit_batch(one, queues=2), store_writes.Patience(timeout_s)
    )


def stored(path: Path, topic: str) -> list[bytes]:
    with StoreReader(path) as reader:
        return sorted(
            body
            for queue in reader.queues(topic)
            for rows in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body"])
            for body in rows.column(0).to_pylist()
        )


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND_LINE, *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )


def test_a_batch_through_the_broker_is_stored_once_and_its_topic_registered(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(100)]
    with (
        running("namesrv", tmp_path / "names", "--set", f"kvConfigPath={tmp_path}/kv.json") as names,
        running_broker(tmp_path, f"namesrvAddr={names.address}") as broker,
    ):
        path = store_of(broker)
        one = batch(path, bodies, "new")
        first, second = commit(path, one), commit(path, batch(path, bodies, "new"))
        assert (first.status, first.rows) == (CommitStatus.COMMITTED, 100)
        assert second == replace(first, status=CommitStatus.REPLAYED)
        assert stored(path, "new") == sorted(bodies)

        async def routed() -> list[int]:
            async with AdminClient(ClientOptions(name_servers=names.address)) as client, asyncio.timeout(30):
                while True:
                    try:
                        return [queue.write_queue_nums for queue in (await client.route("new")).queue_datas]
                    except NoRouteError:
                        await asyncio.sleep(0.05)

        assert run(routed()) == [2]
        assert [one for one in (path / "rocketflow/staging/new").iterdir() if one.name.isdigit()] == []
        broker.stop_in_order()
    assert stored(path, "new") == sorted(bodies)


def test_refusals_through_the_broker_are_those_of_the_store(broker: RunningServer) -> None:
    path = store_of(broker)
    commit(path, batch(path, [b"a", b"b"], "refusals", 5, run_seq=3))
    with pytest.raises(ReplayMismatchError, match="replayMismatch=skip"):
        commit(path, batch(path, [b"a", b"c"], "refusals", 5, run_seq=3))
    with pytest.raises(CheckpointWentBackError):
        commit(path, batch(path, [b"a"], "refusals", 4, run_seq=3))
    with pytest.raises(SupersededRunError):
        commit(path, batch(path, [b"a"], "refusals", 6, run_id="older", run_seq=2))
    other = batch(path, [b"x", b"y"], "refusals", 6, run_seq=3)
    Path(str(other.parts[1].path)).write_bytes(b"another part")
    with pytest.raises(store_writes.BrokerError, match="staged part differs"):
        commit(path, other)
    assert stored(path, "refusals") == [b"a", b"b"]


def test_a_request_cannot_name_files_outside_of_its_batch(broker: RunningServer, tmp_path: Path) -> None:
    path = store_of(broker)
    one = batch(path, [b"a", b"b"], "outside")
    (part,) = [part for part in one.parts if part.path is not None]
    kept = tmp_path / "kept"
    kept.write_bytes(Path(str(part.path)).read_bytes())

    def request(**changes: Any) -> tuple[int, str]:
        fields: dict[str, Any] = {
            "file": Path(str(part.path)).name,
            "rows": part.rows,
            "size": part.size,
            "crc": part.crc,
            "digest": f"{part.digest:016x}",
            "topics": ["outside"],
            "property_crc": part.property_crc,
        }
        body = CommitBatchBody(
            sink_id=changes.pop("sink_id", "outside"),
            query_id="q",
            batch_id=0,
            run_id="run",
            run_seq=1,
            parts=[PartBody(**{**fields, **changes})],
        )

        async def asked() -> tuple[int, str]:
            peers = Peers()
            answer = await peers.request(
                broker.address, RequestCode.ROCKETFLOW_COMMIT_BATCH, body=encode_body(body), timeout_s=30
            )
            await peers.close()
            return answer.code, str(answer.remark)

        return run(asked())

    for changes in (
        {"file": str(kept)},
        {"file": f"../../../../{kept.name}"},
        {"file": ".."},
        {"sink_id": "../.."},
        {"topics": ["../x"]},
        {"topics": ["rmq_sys_ROCKETFLOW_COMMIT"]},
        {"rows": part.rows + 1},
        {"digest": "-1"},
    ):
        code, why = request(**changes)
        assert code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER), (changes, code, why)
    assert kept.exists()
    assert request() == (0, "None")
    assert stored(path, "outside") == [b"b"]


def test_progress_through_the_broker_moves_once(broker: RunningServer) -> None:
    path = store_of(broker)

    def moved(one: ProgressBatch) -> Any:
        return store_writes.commit(path, SYNC, lambda commits: commits.commit_progress(one))

    first = moved(ProgressBatch("mover", "run", None, {"at": 1, "to": None}))
    assert (first.batch_id, first.progress) == (0, {"at": 1, "to": None})
    parts = batch(path, [b"1", b"2", b"3"], "moved", 1).parts
    directory = StagingArea(path, "mover").directory(1)
    parts = [in_directory(one, directory) for one in parts]
    second = moved(ProgressBatch("mover", "run", first, {"at": 2}, 3, parts=parts, queues={"moved": 3}))
    assert (second.batch_id, second.rows, second.progress) == (1, 3, {"at": 2})
    with pytest.raises(ProgressMovedError, match="plan again"):
        moved(ProgressBatch("mover", "other", first, {"at": 2}))
    assert stored(path, "moved") == [b"1", b"2", b"3"]
    with StoreReader(path) as reader:
        assert len(reader.queues("moved")) == 2
    assert json.loads((path / "config/topics.json").read_text())["topicConfigTable"]["moved"]["writeQueueNums"] == 3


def in_directory(part: StagedPart, directory: Path) -> StagedPart:
    """Return a part whose file, if it has one, is in another batch's directory."""
    if part.path is None:
        return part
    directory.mkdir(parents=True, exist_ok=True)
    return replace(part, path=str(Path(part.path).rename(directory / Path(part.path).name)))


def test_a_job_without_an_account_commits_through_a_broker_with_accounts(tmp_path: Path) -> None:
    with plain_broker(tmp_path) as broker:
        path = store_of(broker)
        commit(path, batch(path, [b"0", b"1"], "out", 0))
        commit(path, batch(path, [b"2", b"3"], "out", 1))
        assert stored(path, "out") == [b"0", b"1", b"2", b"3"]
        broker.stop_in_order()


def test_a_write_goes_on_when_the_broker_is_killed_and_comes_back(tmp_path: Path) -> None:
    port = free_port((-2, 1))
    with running_broker(tmp_path, port=port) as broker:
        path = store_of(broker)
        assert (path / "rocketflow/broker").stat().st_mode & 0o777 == 0o600
        found = read_broker_file(path / "rocketflow/broker")
        assert found is not None
        assert len(found.secret) == 64
        assert replace(found, secret="") == BrokerFile(
            broker.address, broker.process.pid, json.loads((path / "rocketflow/store.meta").read_text())["storeId"]
        )
        commit(path, batch(path, [b"0", b"1"], "out", 0))
        broker.kill()
    assert (path / "rocketflow/broker").exists()
    commit(path, batch(path, [b"2", b"3"], "out", 1))  # by itself: the lock is free
    with running_broker(tmp_path, port=port) as broker:
        commit(path, batch(path, [b"4", b"5"], "out", 2))
        assert commit(path, batch(path, [b"4", b"5"], "out", 2)).status is CommitStatus.REPLAYED
        broker.stop_in_order()
    assert not (path / "rocketflow/broker").exists()
    commit(path, batch(path, [b"6", b"7"], "out", 3))
    assert stored(path, "out") == [b"%d" % number for number in range(8)]


def test_a_lost_answer_is_repaired_by_repeating(broker: RunningServer) -> None:
    path = store_of(broker)
    with answers_lost(broker, 2) as proxy:
        done = commit(path, batch(path, [b"a", b"b"], "lost"))
        assert (done.status, done.rows, proxy.losses) == (CommitStatus.REPLAYED, 2, 0)
    assert stored(path, "lost") == [b"a", b"b"]

    def moved(at: int, after: CommitEnvelope | None) -> CommitEnvelope:
        one = ProgressBatch("lost-mover", "run", after, {"at": at, "to": None})
        return store_writes.commit(path, SYNC, lambda commits: commits.commit_progress(one))

    with answers_lost(broker, 1) as proxy:
        first = moved(1, None)
        assert (first.batch_id, first.progress, proxy.losses) == (0, {"at": 1, "to": None}, 0)
        proxy.losses = 1
        second = moved(2, first)
        assert (second.batch_id, second.progress, proxy.losses) == (1, {"at": 2, "to": None}, 0)
        proxy.losses = 1
        with pytest.raises(ProgressMovedError):
            moved(3, first)
    with answers_lost(broker, 100), pytest.raises(store_writes.AnswerLostError, match="run it again"):
        moved(3, second)


def test_a_commit_whose_answer_was_lost_leaves_no_staged_rows(broker: RunningServer) -> None:
    path, encoder = store_of(broker), BatchEncoder(SYNC, lambda _: 2, default_topic="swept")
    rows = pa.RecordBatch.from_pydict({"body": pa.array([b"a", b"b"], pa.binary())})
    chunks = list(encoder.encode(rows, 1, QueueTurns(lambda _: 0)))
    one = ProgressBatch("swept", "run", None, {"at": 1}, 2, chunks)
    with answers_lost(broker, 1) as proxy:
        assert store_writes.commit(path, SYNC, lambda commits: commits.commit_progress(one)).batch_id == 0
        assert proxy.losses == 0
    assert stored(path, "swept") == [b"a", b"b"]
    assert not StagingArea(path, "swept").directory(0).exists()


def test_a_stale_file_of_a_broker_is_recognised(broker: RunningServer, tmp_path: Path) -> None:
    """The lock is held by another process, and the file names a broker that has ended, or that of another store."""
    path = tmp_path / "s"
    with MessageStore.open(path) as store:
        store.put_message(Message("t", b"x")).raise_for_status()
        store_id = store.meta.store_id
        for address in (f"127.0.0.1:{free_port()}", broker.address):
            write_broker_file(RootPaths(path).broker_file, BrokerFile(address, os.getpid() + 1, store_id))
            assert store_writes.find_broker(path, SYNC) is None
            with pytest.raises(StoreLockedError, match="this process"):
                commit(path, batch(path, [b"a", b"b"], "out"), timeout_s=0.1)
    commit(path, batch(path, [b"a", b"b"], "out"))
    assert stored(path, "out") == [b"a", b"b"]


def test_a_copy_of_a_served_store_is_not_written_through_its_broker(broker: RunningServer, tmp_path: Path) -> None:
    path, copy = store_of(broker), tmp_path / "copy"
    commit(path, batch(path, [b"a", b"b"], "copied"))
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("abort"))
    link = tmp_path / "link"
    link.symlink_to(path)
    assert store_writes.find_broker(link, SYNC) is not None
    assert store_writes.find_broker(copy, SYNC) is None
    commit(copy, batch(copy, [b"c", b"d"], "copied", 1))
    assert stored(copy, "copied") == [b"a", b"b", b"c", b"d"]
    assert stored(path, "copied") == [b"a", b"b"]


def test_commands_that_need_the_lock_say_stop_the_broker_first(broker: RunningServer) -> None:
    path = str(store_of(broker))
    for words in (["store", "rebuild", path], ["store", "verify", path, "--repair"], ["store", "recover", path]):
        done = command(*words)
        assert done.returncode == 75, (words, done.stdout, done.stderr)
        (line,) = [one for one in done.stderr.splitlines() if one.startswith("error:")]
        assert f"the broker at {broker.address}, pid {broker.process.pid}" in line
        assert line.endswith("stop the broker first")


def test_no_send_is_refused_while_a_large_batch_is_committed(tmp_path: Path) -> None:
    with running_broker(tmp_path, "mappedFileSizeCommitLog=134217728") as broker:
        path = store_of(broker)
        one = batch(path, [b"x" * 1000] * LARGE_ROWS, "large")
        stop, answers = threading.Event(), Counter[int]()

        async def send() -> None:
            peers = Peers()
            channel = await peers.channel(broker.address)
            sends = []
            while not stop.is_set():
                sends.append(
                    asyncio.ensure_future(
                        channel.request(RequestCode.SEND_MESSAGE, send_header("small"), body=b"x", timeout_s=60)
                    )
                )
                await asyncio.sleep(0.002)
            answers.update([answer.code for answer in await asyncio.gather(*sends)])
            await peers.close()

        sender = threading.Thread(target=lambda: run(send()))
        sender.start()
        try:
            assert commit(path, one).rows == LARGE_ROWS
        finally:
            stop.set()
            sender.join(60)
        assert set(answers) == {ResponseCode.SUCCESS}
        assert len(stored(path, "small")) == answers.total()
        assert len(stored(path, "large")) == LARGE_ROWS
        broker.stop_in_order()


@pytest.mark.skipif(LEVEL == "sample", reason="a broker of its own: RF_FAULTS=1 runs it")
def test_verify_and_a_copy_of_the_log_work_beside_the_broker(broker: RunningServer, tmp_path: Path) -> None:
    """A backup is a copy of the log, taken while a producer sends; a rebuild of it makes a store."""
    path = store_of(broker)
    commit(path, batch(path, [b"%d" % number for number in range(200)], "saved"))
    stop = threading.Event()
    sent = [0]

    async def send() -> None:
        peers = Peers()
        while not stop.is_set():
            answer = await peers.request(
                broker.address, RequestCode.SEND_MESSAGE, send_header("beside"), body=b"%d" % sent[0], timeout_s=30
            )
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            sent[0] += 1
        await peers.close()

    sender = threading.Thread(target=lambda: asyncio.run(send()))
    sender.start()
    try:
        verified = command("store", "verify", path.as_posix(), "--json")
        before = sent[0]
        target = tmp_path / "backup"
        shutil.copytree(path / "commitlog", target / "commitlog")
    finally:
        stop.set()
        sender.join(60)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert before > 0
    saved = command("store", "rebuild", target.as_posix())
    assert saved.returncode == 0, saved.stdout + saved.stderr
    assert len(stored(target, "saved")) == 200
    assert set(stored(target, "beside")) >= {b"%d" % number for number in range(before)}
    with MessageStore.open(target) as store:
        store.put_message(Message("beside", b"after")).raise_for_status()
    assert command("store", "verify", target.as_posix()).returncode == 0


def test_due_messages_are_delivered_by_the_broker_at_the_job_s_request(broker: RunningServer) -> None:
    path = store_of(broker)

    async def send() -> None:
        peers = Peers()
        for number in range(20):
            waits = "DELAY\x011\x02" if number % 2 else "TIMER_DELAY_MS\x011000\x02"
            answer = await peers.request(
                broker.address,
                RequestCode.SEND_MESSAGE,
                send_header("delayed", properties=waits),
                body=b"%d" % number,
                timeout_s=30,
            )
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        await peers.close()

    run(send())
    job = parse_arguments(["--store", str(path), "--engine", "spark"])
    preflight(job)
    end = time.monotonic() + 60
    while True:
        complete = len(stored(path, "delayed")) == 20
        done = run_without_spark(replace(job, until_ms=int(time.time() * 1000)))
        assert done is not None
        result, code = done
        assert (code, result["engine"]) == (0, "broker"), result  # timer messages are in the store, delivered or not
        if complete:
            break
        assert time.monotonic() < end
    assert sorted(int(one) for one in stored(path, "delayed")) == [*range(20)]
    assert (result["timers"]["pending"], result["timers"]["rows"]) == (0, 0)


def test_a_broker_that_demands_tls_is_written_through(tmp_path: Path) -> None:
    with running_broker(tmp_path, "tls.server.mode=enforcing", "tls.test.mode.enable=true") as broker:
        path = store_of(broker)
        assert commit(path, batch(path, [b"a", b"b"], "out")).rows == 2
        broker.stop_in_order()
    assert stored(path, "out") == [b"a", b"b"]


def test_a_stop_in_the_middle_of_a_commit_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rows = [b"%d" % number * 200 for number in range(20_000)]
    with running_broker(tmp_path, "mappedFileSizeCommitLog=134217728") as broker:
        path = store_of(broker)
        batches = [batch(path, rows, "out", number) for number in range(3)]
        results: list[CommitResult] = []
        committing = threading.Thread(target=lambda: results.extend(commit(path, one) for one in batches))
        committing.start()
        while not (path / "rocketflow/staging/out/last").exists():
            time.sleep(0.001)
        broker.stop_in_order()
        committing.join(120)
    assert [one.rows for one in results] == [len(rows)] * 3
    assert Counter(stored(path, "out")) == Counter(rows * 3)

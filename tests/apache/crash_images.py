"""Crash images: directories left by crashes and damage, each with the messages that were put into it."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch
from rocketflow_store.commits.staged_part import batch_directory, stage
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.apache.judge import JudgedMessage, read_with_rocketflow
from tests.support.disk_layer import CHANGES, Call
from tests.support.simulated_disk import SimulatedDisk, State

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 15, mapped_file_size_consume_queue=1000, max_hash_slot_num=100, max_index_num=400
)
KINDS = ("killed", "power lost", "torn", "cut short", "derived lost", "damaged")
IMAGES_A_RUN = 6
STEPS = 60
NEVER_MS = 3_600_000


@dataclass(frozen=True)
class Commit:
    """A sink commit in the log: its envelope and its rows."""

    begin_offset: int
    end_offset: int


@dataclass(frozen=True)
class Image:
    """A directory after a crash or damage. `truth` is everything that was ever put; the image may hold less."""

    path: Path
    kind: str
    what: str
    truth: dict[tuple[str, int, int], JudgedMessage]
    commits: list[Commit]
    damage: int = -1
    """The physical offset of changed bytes of the log, or -1."""
    synced: int = 0
    """The offset up to which the image's confirm file says that the log was synced."""


class _Writer:
    """Makes random puts, batches, sink commits and flushes, and keeps snapshots of random instants."""

    def __init__(self, disk: SimulatedDisk, room: Path, seed: int) -> None:
        self._disk, self._room = disk, room
        self._rng = random.Random(seed)
        self.instants: list[tuple[State, Call]] = []
        self.commits: list[Commit] = []
        self._number = self._batch = 0

    def go(self) -> None:
        rng = self._rng
        flush = rng.choice(list(FlushDiskType))
        config = StoreConfig(
            mapped_file_size_commit_log=SIZES.mapped_file_size_commit_log,
            mapped_file_size_consume_queue=SIZES.mapped_file_size_consume_queue,
            max_hash_slot_num=SIZES.max_hash_slot_num,
            max_index_num=SIZES.max_index_num,
            flush_disk_type=flush,
            enabled_append_prop_crc=rng.random() < 0.5,
            flush_interval_commit_log=NEVER_MS,
            flush_interval_consume_queue=NEVER_MS,
        )
        with MessageStore.open(self._disk.root, config) as store:
            for topic in ("t0", "t1"):
                store.create_topic(topic, 2)
            self._disk.on_call = self._look
            for _ in range(STEPS):
                self._step(store)
            self._disk.on_call = lambda _: None

    def _look(self, call: Call) -> None:
        if call.kind in CHANGES and self._rng.random() < 0.04:
            self.instants.append((self._disk.freeze(), call))

    def _body(self) -> bytes:
        self._number += 1
        return b"%d:" % self._number * self._rng.randrange(1, 40)

    def _step(self, store: MessageStore) -> None:
        rng = self._rng
        kind = rng.random()
        if kind < 0.55:
            store.put_message(Message(rng.choice(["t0", "t1"]), self._body(), tags="a", keys=[f"k{self._number}"]))
        elif kind < 0.8:
            rows = {"body": [self._body() for _ in range(rng.randrange(2, 25))]}
            store.append_batch(pa.RecordBatch.from_pydict(rows), "t0")
        elif kind < 0.92:
            self._commit(store)
        else:
            store.flush()

    def _commit(self, store: MessageStore) -> None:
        encoder = BatchEncoder(store.config, lambda _: 2, default_topic="t1", row_hashes=True)
        rows = {"body": [self._body() for _ in range(self._rng.randrange(2, 40))]}
        directory = batch_directory(store.paths.staging, "sink", self._batch)
        part = stage(encoder.encode(pa.RecordBatch.from_pydict(rows), 1), directory, "p0")
        done = commit_batch(store, SinkBatch("sink", "query", self._batch, "run", 1, [part]))
        self._batch += 1
        self.commits.append(Commit(done.begin_offset, done.end_offset))


def make_images(room: Path, seed: int) -> list[Image]:
    """Run a writer and return one image of each kind, taken at random instants of the run."""
    rng = random.Random(seed)
    live = room / f"{seed}-live"
    live.mkdir(parents=True)
    with SimulatedDisk(live) as disk:
        writer = _Writer(disk, room, seed)
        writer.go()
    truth = read_with_rocketflow(live)
    shutil.rmtree(live)
    images = []
    instants = [one for one in writer.instants if any(name.startswith("commitlog/") for name in one[0].live_names)]
    for number in range(IMAGES_A_RUN):
        state, call = rng.choice(instants)
        kind = KINDS[number % len(KINDS)]
        path = room / f"{seed}-{number}"
        if kind == "power lost":
            state.crash(path, seed + number, rng.choice([0.1, 0.5, 0.9]))
        else:
            state.kill(path)
        what, damage = f"before {call.kind} {call.path}", -1
        if kind not in ("killed", "power lost"):
            (path / "abort").touch()
            what, damage = _hurt(path, kind, rng)
        confirmed = read_confirm(StorePaths(path))
        synced = confirmed.synced_offset if confirmed is not None else 0
        images.append(Image(path, kind, what, truth, writer.commits, damage, synced))
    return images


def _hurt(path: Path, kind: str, rng: random.Random) -> tuple[str, int]:
    """Damage the directory; return (a description, the damaged offset of the log or -1)."""
    logs = sorted(one for one in (path / "commitlog").iterdir() if one.stat().st_size)
    if kind == "torn" or (rng.random() < 0.5 and kind != "cut short"):  # another writer leaves no such folder
        shutil.rmtree(path / "rocketflow", ignore_errors=True)
    if kind == "torn":
        last = max(logs)
        data = last.read_bytes()
        end = len(data.rstrip(b"\0"))
        at = max(end - rng.randrange(1, 400), 0)
        wrong = rng.choice([bytes(end - at), rng.randbytes(end - at), data[:end][-(end - at) - 200 :][: end - at]])
        last.write_bytes((data[:at] + wrong).ljust(len(data), b"\0"))
        return f"{last.name} torn at {at} of {end}", -1
    if kind == "cut short":
        files = [one for one in path.rglob("*") if one.is_file() and one.name.isdigit() and one.stat().st_size]
        file = rng.choice([max(logs), *files])
        size = rng.randrange(file.stat().st_size)
        with file.open("r+b") as opened:
            opened.truncate(size)
        in_log = file.parent.name == "commitlog"
        return f"{file.relative_to(path)} cut to {size}", int(file.name) + size if in_log else -1
    if kind == "derived lost":
        lost = rng.choice([["consumequeue"], ["index"], ["checkpoint"], ["consumequeue", "index", "checkpoint"]])
        for name in lost:
            if (path / name).is_dir():
                shutil.rmtree(path / name)
            else:
                (path / name).unlink(missing_ok=True)
        return f"{', '.join(lost)} lost", -1
    file = rng.choice(logs)
    data = bytearray(file.read_bytes())
    end = len(data.rstrip(b"\0"))
    at = rng.randrange(max(end, 1))
    data[at] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return f"{file.name} flipped at {at} of {end}", int(file.name) + at

"""Columns that the kernel makes of a queue's records are those of Python's code, and only of sound records."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store import MessageStore, RaiseFaults, SkipFaults, StoreConfig, StoreError, StoreReader
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.system_flags import COMPRESSED_FLAG
from rocketflow_store.records.arrow.columns import SOURCE_COLUMNS
from rocketflow_store.records.decoding.checked_columns import EVERY_CRC, PLACE, RECORD_CRC, checked_columns
from rocketflow_store.records.decoding.decode import ColumnBuilder, QueueIdentity, RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import sound_rows
from rocketflow_store.records.decoding.record_crc import judge_contents, judge_run
from tests.store.kernel.log_records import Log, logs
from tests.support.bulk_rows import rows
from tests.support.kernel_switch import pure_python
from tests.support.trials import sampled

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
COLUMNS: Final = tuple(name for name in SOURCE_COLUMNS if name != "properties")
CONTENTS: Final = st.sampled_from([PLACE, RECORD_CRC, EVERY_CRC])
TOPIC: Final = "Aufträge-😀"
IDENTITY: Final = QueueIdentity(TOPIC, 1, "broker-a")


@given(logs(one_topic=TOPIC.encode()), CONTENTS, st.lists(st.sampled_from(COLUMNS), unique=True))
def test_columns_are_those_of_sound_records(log: Log, contents: int, columns: list[str]) -> None:
    records = log.buffer, log.positions, log.sizes
    found = checked_columns(records, (log.offsets, log.places), IDENTITY, columns, contents)
    with pure_python():
        looked_at = RecordColumns(*records)
        looked_at.check_place(log.places, log.offsets, IDENTITY)
        faults = dict(looked_at.faults)
        protected = np.zeros(0, bool)
        if contents != PLACE and not faults:
            more, protected = judge_contents(looked_at, bodies=contents == EVERY_CRC)
            faults |= more
        if found is None:
            compressed = contents == EVERY_CRC and (looked_at.sys_flag & COMPRESSED_FLAG).any()
            assert faults or compressed or not log.is_usual
            return
        assert not faults
        assert contents != EVERY_CRC or not (looked_at.sys_flag & COMPRESSED_FLAG).any()
        expected = ColumnBuilder(looked_at, IDENTITY, log.offsets, log.places).batch(columns)
    made = found.batch(columns)
    made.validate(full=True)
    assert made.schema == expected.schema
    assert made.equals(expected)
    assert found.flags == int(np.bitwise_or.reduce(looked_at.sys_flag.view(np.uint32)))
    if contents != PLACE:
        bare = log.places[~protected]
        assert found.bare == ((int(bare[0]), int(bare[-1])) if len(bare) else None)


@pytest.mark.parametrize("with_crc", [False, True])
def test_each_changed_byte_is_judged_as_by_python(with_crc: bool) -> None:
    log = _of_properties([b"TAGS\x01a\x02KEYS\x01k\x02"], with_crc)
    for at in range(len(log.data)):
        for change in (1, 0x80):
            data = bytearray(log.data)
            data[at] ^= change
            records = pa.py_buffer(bytes(data)), log.positions, log.sizes
            place = log.offsets, log.places
            taken = [checked_columns(records, place, IDENTITY, ["tags"], one) is not None for one in range(3)]
            rows = sound_rows(records, 0, (1,), (0, 0))
            with pure_python():
                looked_at = RecordColumns(*records)
                looked_at.check_place(log.places, log.offsets, IDENTITY)
                placed = looked_at.before_faults()
                contents = [{}, *(judge_contents(placed, bodies=bodies)[0] for bodies in (False, True))]
                run = judge_run(RecordColumns(*records), 0, (0, 0))
            unusual = [False, False, bool(looked_at.sys_flag[0] & COMPRESSED_FLAG)]
            faults = [bool(looked_at.faults or one) for one in contents]
            assert taken == [not (bad or odd) for bad, odd in zip(faults, unusual, strict=True)], at
            assert rows is None or (run.stop, run.damaged) == (1, {}), at


@given(
    logs(one_topic=TOPIC.encode(), usual=True),
    st.sampled_from(["topic", "queue", "offset", "place", "size", "position"]),
)
def test_record_of_another_place_is_left_over(log: Log, other: str) -> None:
    identity = QueueIdentity("t" if other == "topic" else TOPIC, 2 if other == "queue" else 1, "b")
    positions, sizes = log.positions.copy(), log.sizes.copy()
    offsets, places = log.offsets, log.places
    {"size": sizes, "position": positions, "offset": offsets, "place": places}.get(other, np.zeros(1))[-1] += 1
    assert checked_columns((log.buffer, positions, sizes), (offsets, places), identity, ["body"], PLACE) is None


@given(
    logs(one_topic=TOPIC.encode()),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-200, 200)), min_size=8, max_size=8),
    st.sampled_from([0, 1 << 31, 1 << 32, (1 << 63) - 1, -(1 << 63)]),
)
def test_units_that_lead_anywhere_read_nothing_outside_of_the_log(
    log: Log, moved: list[tuple[int, int]], far: int
) -> None:
    shifts = np.array(moved[: len(log.positions)], np.int64)
    positions, sizes = log.positions + shifts[:, 0], log.sizes + shifts[:, 1]
    if far:
        (positions if far > 0 else sizes)[-1] = far
    records = log.buffer, positions, sizes
    found = checked_columns(records, (log.offsets, log.places), IDENTITY, COLUMNS, RECORD_CRC)
    assert found is None or not shifts.any()


def test_leading_and_missing_values_are_null_as_without_the_kernel() -> None:
    assert COMPILED is not None
    log = _of_properties([b"", b"TAGS\x01a\x02", b"KEYS\x01k\x02TAGS\x01b\x02TAGS\x01c\x02"])
    found = checked_columns(
        (log.buffer, log.positions, log.sizes), (log.offsets, log.places), IDENTITY, ["tags", "keys"], EVERY_CRC
    )
    assert found is not None
    assert found.column("tags").to_pylist() == [None, "a", "c"]
    assert found.column("keys").to_pylist() == [None, None, "k"]
    assert found.column("keys").null_count == 2


def _of_properties(properties: list[bytes], with_crc: bool = False) -> Log:
    data, positions = b"", []
    for at, one in enumerate(properties):
        positions.append(len(data))
        fields = RecordFields(TOPIC.encode(), 1, b"x", one, 0, 0, 1, bytes(8), bytes(8))
        data += encode_record(fields, len(data), at, 2, with_crc)
    sizes = np.diff([*positions, len(data)]).astype(np.int64)
    return Log(data, 0, np.array(positions, np.int64), sizes, 0, True)


# -- reads of a store

DAMAGES: Final = ("none", "body", "property", "crc", "head", "topic", "size", "no-crc", "units")


@pytest.mark.parametrize("damage", sampled(DAMAGES, 3))
def test_read_with_the_kernel_is_the_same_as_without(tmp_path: Path, damage: str) -> None:
    config = StoreConfig(mapped_file_size_commit_log=1 << 20, enabled_append_prop_crc=damage != "no-crc")
    with MessageStore.open(tmp_path / "s", config) as store:
        store.append_batch(rows(3000, 300), topic="t")
    _damage(tmp_path / "s", damage)
    for columns in (
        None,
        ["queueOffset", "body", "tags"],
        ["keys"],
        ["physicalOffset", "storeSize"],
        [*SOURCE_COLUMNS],
    ):
        for tags in (None, "tag1 || tag2"):
            for skips in (False, True):
                made = _read(tmp_path / "s", columns, tags, skips=skips)
                with pure_python():
                    expected = _read(tmp_path / "s", columns, tags, skips=skips)
                assert made[1:] == expected[1:]
                assert len(made[0]) == len(expected[0])
                assert all(one.equals(other) for one, other in zip(made[0], expected[0], strict=True))


def _damage(path: Path, damage: str) -> None:
    if damage in ("none", "no-crc"):
        return
    log, *_ = sorted((path / "commitlog").iterdir())
    unit_file = path / "consumequeue" / "t" / "0" / f"{0:020d}"
    raw, units = bytearray(log.read_bytes()), bytearray(unit_file.read_bytes())
    place, size = int.from_bytes(units[20 * 40 :][:8], "big"), int.from_bytes(units[20 * 40 + 8 :][:4], "big")
    at = {"body": 100, "property": size - 60, "crc": size - 5, "head": 20, "topic": 88 + 301, "size": 3}.get(damage, 0)
    raw[place + at] ^= 1
    if damage == "units":
        raw[place + at] ^= 1
        units[20 * 41 : 20 * 42] = units[20 * 40 : 20 * 41]
    log.write_bytes(raw)
    unit_file.write_bytes(units)


def _read(
    path: Path, columns: list[str] | None, tags: str | None, *, skips: bool
) -> tuple[list[pa.RecordBatch], str, object]:
    skipped: list[str] = []
    faults = SkipFaults(lambda one: skipped.append(str(one))) if skips else RaiseFaults()
    found: list[pa.RecordBatch] = []
    why = ""
    with StoreReader(path) as reader:
        for (topic, queue_id), (low, high) in sorted(reader.snapshot().queues.items()):
            try:
                found += reader.read(
                    topic, queue_id, low, high, columns, tags=tags, faults=faults, max_batch_bytes=1 << 17
                )
            except StoreError as error:
                why += f"{type(error).__name__}: {error}\n"
    return found, why, skipped

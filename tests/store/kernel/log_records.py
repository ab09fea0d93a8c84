"""Logs of usual and unusual records, and of damaged ones, for the parts of the kernel that read records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import strategies as st

from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC

HOSTS = (encode_host("10.0.0.1:10911"), encode_host("[2001:db8::1]:10911"))
TOPICS = (b"t", b"topic-of-some-length", SCHEDULE_TOPIC.encode(), "Aufträge".encode(), b"t" * 127, b"t" * 128, b"../t")
NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "TAGSX", "KEY", "INNER_MULTI_DISPATCH", "a")
RARE_NAMES = ("INNER_MULTI_QUEUE_OFFSET", "__CRC32#", "__CRC32x", "")
TEXTS = st.text(st.sampled_from("abcXYZ019 #é\u0800中\uffff😀\U0010ffff"), min_size=1, max_size=20)
VALUES = st.one_of(
    TEXTS, st.sampled_from(["1", "3", "18", "19", "0", "-1", "x", " ", "  a  b ", "1234567890", "a" * 40])
)
PAIRS = st.tuples(st.sampled_from(NAMES * 3 + RARE_NAMES), VALUES)
ODD = st.lists(st.sampled_from([1, 2, 2, 32, 84, 65, 71, 83, 0xC3, 0xA9, 0xED, 0xA0, 0x80, 0, 0xFF]), max_size=60).map(
    bytes
)


def _joined(pairs: list[tuple[str, str]], ended: bool) -> bytes:
    raw = b"".join(f"{name}\x01{value}\x02".encode() for name, value in pairs)
    return raw if ended else raw[:-1]


PROPERTIES = st.one_of(
    st.builds(_joined, st.lists(PAIRS, max_size=6), st.booleans()),
    st.just(b""),
    st.builds(bytes, ODD),
    st.just(b"\0" * 30),
)
USUAL_PROPERTIES = st.builds(
    _joined,
    st.lists(st.tuples(st.sampled_from(("TAGS", "KEYS", "UNIQ_KEY", "WAIT", "a")), TEXTS), max_size=6),
    st.booleans(),
)
USUAL_TIMES = st.integers(0, 4_000_000_000_000)
TIMES = USUAL_TIMES | st.sampled_from(
    [-1, -62_104_060_800_000, -62_104_060_800_001, 253_370_764_800_000, (1 << 63) - 1]
)


@dataclass(frozen=True)
class Log:
    """Records one after the other from physical offset `base` on; record k is at queue offset `first` + k."""

    data: bytes
    base: int
    positions: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    first: int
    is_usual: bool
    """No record is damaged or unusual."""

    @property
    def buffer(self) -> pa.Buffer:
        return pa.py_buffer(self.data)

    @property
    def places(self) -> npt.NDArray[np.int64]:
        return self.positions + self.base

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        return self.first + np.arange(len(self.positions))


@st.composite
def logs(draw: st.DrawFn, *, one_topic: bytes | None = None, usual: bool | None = None) -> Log:
    """Draw a log; with `usual` none of its records is unusual, and with `one_topic` all are of that topic."""
    usual = draw(st.booleans()) if usual is None else usual
    base, first = draw(st.sampled_from([0, 1 << 30, 1 << 40])), draw(st.sampled_from([0, 7, 1 << 40]))
    topics = st.just(one_topic) if one_topic else st.sampled_from((*TOPICS[:2], TOPICS[3]) if usual else TOPICS)
    flags = st.sampled_from([0, 0, 8, 0x300] if usual else [0, 0, 0, 1, 4, 8, 12, 0x40, 0x80, 0xC0, -1 & 0x7FFFFF00])
    data, positions = b"", []
    with_crc = draw(st.sampled_from([None, False, True]))
    for at in range(draw(st.integers(1, 8))):
        fields = RecordFields(
            topic=draw(topics),
            queue_id=1 if one_topic else draw(st.integers(0, 3)),
            body=draw(st.binary(max_size=200)),
            properties=draw(USUAL_PROPERTIES if usual else PROPERTIES),
            flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
            sys_flag=draw(flags),
            born_timestamp=draw(USUAL_TIMES if usual else TIMES),
            born_host=draw(st.sampled_from(HOSTS)),
            store_host=draw(st.sampled_from(HOSTS)),
            reconsume_times=draw(st.integers(0, 20)),
            prepared_transaction_offset=draw(st.integers(0, 1 << 40)),
        )
        positions.append(len(data))
        crc = draw(st.booleans()) if with_crc is None else with_crc
        data += encode_record(fields, base + len(data), first + at, draw(USUAL_TIMES if usual else TIMES), crc)
    sizes = np.diff([*positions, len(data)])
    if not usual:
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            at = draw(st.integers(0, len(data) - 1))
            data = data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at + 1 :]
    return Log(data, base, np.array(positions, np.int64), sizes.astype(np.int64), first, usual)

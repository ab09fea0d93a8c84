"""Messages and clients' batches are stored as the same bytes with the same results, with the kernel and without it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.format.batch_body import FIXED_SIZE, BatchEntry, encode_batch_body
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import UNIQ_KEYS
from rocketflow_store.records.encoding import compiled_messages
from rocketflow_store.records.encoding.message_encoder import MessageEncoder
from rocketflow_store.views.dispatch import dispatcher
from rocketflow_store.views.index import index_file
from tests.support.kernel_switch import without_kernel
from tests.support.trials import some

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

NOW: Final = 1_700_000_000_000
CRC_NAME: Final = "__CRC32#"
TEXTS: Final = st.lists(
    st.sampled_from(["", " ", "a", "k l", "键", "😀", "ÿ", "\ud800", "\x01", "T#", CRC_NAME, "x" * 40]), max_size=3
).map("".join)
PLAIN: Final = st.sampled_from(["", "a", "k1 k2", " k  l ", "键", "order-17"])
NAMES: Final = st.sampled_from(
    [
        "a",
        "zone",
        "名",
        "KEYS",
        "TAGS",
        "UNIQ_KEY",
        "WAIT",
        "DELAY",
        "TIMER_DELIVER_MS",
        "INNER_NUM",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        CRC_NAME,
        "__RMQ.TRANSIENT.x",
        "",
        "__SHARDINGKEY",
    ]
)
TOPICS: Final = st.sampled_from(["t", "t", "orders", "batches", "y" * 127, "v" * 128, "bad name", "%LMQ%x", "", None])
NUMBERS: Final = st.sampled_from([0, 0, 0, 1, -1, (1 << 31) - 1, -(1 << 31), 1 << 31, 1 << 63, True, "1", None, 1.5])
USUAL: Final = st.builds(
    Message,
    topic=st.sampled_from(["t", "orders", "y" * 127]),
    body=st.binary(max_size=200),
    tags=PLAIN,
    keys=PLAIN | st.lists(PLAIN, max_size=3),
    properties=st.dictionaries(st.sampled_from(["a", "zone", "名", "WAIT"]), PLAIN, max_size=2),
    sharding_key=PLAIN,
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    uniq_key=st.sampled_from(["", "", "id-1", "键"]),
    queue_id=st.none() | st.integers(0, 3),
    born_timestamp=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
)
ODD: Final = st.builds(
    Message,
    topic=TOPICS,
    body=st.binary(max_size=200) | st.sampled_from(["text", None, bytearray(b"b"), b"z" * 20_000]),
    tags=TEXTS,
    keys=TEXTS | st.lists(TEXTS | st.none(), max_size=2),
    properties=st.dictionaries(NAMES, TEXTS | st.none(), max_size=3),
    sharding_key=TEXTS,
    flag=NUMBERS,
    delay_level=st.sampled_from([0, 0, 0, 3]),
    uniq_key=TEXTS,
    queue_id=st.none() | st.integers(-1, 3) | st.just(1 << 20),
    sys_flag=st.sampled_from([0, 0, 0, 1, 4, 8, 0x10]),
    born_timestamp=NUMBERS,
    born_host=st.sampled_from([None, None, "1.2.3.4:5", "[::1]:5", "nowhere"]),
    reconsume_times=NUMBERS,
    prepared_transaction_offset=NUMBERS,
)
RAW: Final = st.lists(
    st.sampled_from(
        [
            b"UNIQ_KEY\x01id-9\x02",
            b"UNIQ_KEY\x01\x02",
            b"TAGS\x01tag\x02",
            b"TAGS\x01\x02",
            b"KEYS\x01k1 k2\x02",
            b"KEYS\x01k3",
            b"a\x01b\x02",
            b"\x02",
            b"xTAGS\x01no\x02",
            "TAGS\x01键\x02".encode(),
            b"TAGS\x01\xed\xa0\x80\x02",
            b"__CRC32#\x011234567890\x02",
            b"INNER_BASE\x011\x02",
            b"\x00",
            b"UNIQ_KEY\x01" + CRC_NAME.encode() * 2,
        ]
    ),
    max_size=4,
).map(b"".join)
BODIES: Final = st.one_of(
    st.lists(st.builds(BatchEntry, st.integers(-5, 5), st.binary(max_size=90), RAW), max_size=5).map(encode_batch_body),
    st.binary(max_size=60),
    st.builds(
        lambda entries, at, octet: entries[:at] + bytes([octet]) + entries[at + 1 :],
        st.just(encode_batch_body([BatchEntry(1, b"body", b"UNIQ_KEY\x01id-9\x02")] * 2)),
        st.integers(0, 2 * (FIXED_SIZE + 18)),
        st.integers(0, 255),
    ),
)
BATCHES: Final = st.builds(
    MessageBatch,
    topic=TOPICS,
    body=BODIES | BODIES.map(bytearray),
    properties=st.dictionaries(NAMES, TEXTS, max_size=2),
    queue_id=st.none() | st.integers(-1, 3),
    sys_flag=st.sampled_from([0, 0, 0, 1, 4, 0x10, 1 << 40]),
    born_timestamp=NUMBERS,
    born_host=st.sampled_from([None, "1.2.3.4:5", "[::1]:5", "nowhere"]),
    reconsume_times=st.sampled_from([0, 0, 3, 1 << 31, "1"]),
)
IDS_AND_TAGS: Final = encode_batch_body(
    [
        BatchEntry(0, b"b", b"UNIQ_KEY\x01id\x02UNIQ_KEY\x01\x02TAGS\x01a\x02TAGS\x01\x02"),
        BatchEntry(0, b"c", b"UNIQ_KEY\x01id"),
        BatchEntry(0, b"d", b"KEYS\x01k l"),
    ]
)
FIELDS: Final = ("flag", "sys_flag", "reconsume_times", "prepared_transaction_offset")
NO_NUMBERS: Final[list[Any]] = [None, "", 0.0]
"""What is false as 0 is, and no number of a record."""
REQUESTS: Final = st.lists(USUAL | ODD | BATCHES, min_size=1, max_size=12)


def stored(path: Path, config: StoreConfig, requests: Sequence[Any], together: bool) -> tuple[Any, dict[str, bytes]]:
    """Put the requests into a new store; return their results and the bytes of its files."""
    numbers = count(77)
    ids = patch.object(UNIQ_KEYS, "reserve", lambda count: ("7F0000011234ABCDEF01", 1000 * next(numbers)))
    with ids, MessageStore.open(path, config) as store:
        results: list[Any] = store.put_messages(requests) if together else [store.put_message(one) for one in requests]
    kept = {"commitlog", "consumequeue", "batchconsumequeue", "index"}
    files = {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted(path.rglob("*"))
        if one.is_file() and one.relative_to(path).parts[0] in kept
    }
    return results, files


@settings(max_examples=some(180))
@given(REQUESTS, st.booleans(), st.sampled_from(["", "5.3"]), st.booleans(), st.sampled_from(["10.0.0.1:1", "[::1]:9"]))
@example([Message("t", b"b", "a\x02")], False, "", True, "10.0.0.1:1")
@example([Message("t", b"b", properties={"DELAY": "3"})], False, "", True, "10.0.0.1:1")
@example([Message("t", b"b", "tag", ["k l"])] * 2, True, "5.3", False, "10.0.0.1:1")
@example([MessageBatch("t", IDS_AND_TAGS, {"zone": "b"})], True, "", False, "10.0.0.1:1")
@example([Message("t", b"b", **{name: no}) for name in FIELDS for no in NO_NUMBERS], False, "", False, "10.0.0.1:1")
def test_requests_have_the_same_results_and_files_by_kernel_and_python(
    tmp_path_factory: pytest.TempPathFactory,
    requests: list[Any],
    with_crc: bool,
    profile: str,
    together: bool,
    host: str,
) -> None:
    config = StoreConfig(
        mapped_file_size_commit_log=1 << 14,
        max_hash_slot_num=50,
        max_index_num=90,
        max_message_size=8_000,
        enabled_append_prop_crc=with_crc,
        profile=profile,
        store_host=host,
        clock=ManualClock(NOW),
    )
    path = tmp_path_factory.mktemp("puts")
    compiled = stored(path / "compiled", config, requests, together)
    with without_kernel(compiled_messages, dispatcher, index_file):
        python = stored(path / "python", config, requests, together)
    assert compiled == python


def test_usual_requests_are_not_left_over_and_unusual_ones_are(tmp_path: Path) -> None:
    entries = encode_batch_body(
        [BatchEntry(0, b"b", b"KEYS\x01k"), BatchEntry(0, b"c", b"UNIQ_KEY\x01id\x02TAGS\x01a\x02")]
    )
    usual: list[Message | MessageBatch] = [
        Message("t", b"b", "a", ["k", "l"], properties={"zone": "名"}, sharding_key="s", uniq_key="id", flag=-1),
        Message("t", b"", born_timestamp=5, queue_id=2),
        MessageBatch("t", entries, {"zone": "b"}, born_host="1.2.3.4:5", born_timestamp=7),
    ]
    unusual: list[Message | MessageBatch] = [
        Message("t", b"b", delay_level=1),
        Message("t", b"b", properties={"KEYS": "k"}),
        Message("t", b"b", "\ud800"),
        Message("t", b"b", uniq_key=f"{CRC_NAME}\x7f{'0' * 10}"),
        Message("t", b"b", sys_flag=1),
        MessageBatch("t", entries + b"\0"),
        MessageBatch("t", bytearray(entries)),  # type: ignore[arg-type]
        MessageBatch("t", encode_batch_body([BatchEntry(0, b"b", b"TAGS\x01\xff\x02")])),
        MessageBatch("t", encode_batch_body([BatchEntry(0, b"b", b"INNER_BASE\x011\x02")])),
    ]
    config = StoreConfig(enabled_append_prop_crc=False, mapped_file_size_commit_log=1 << 16)
    encoder = MessageEncoder(config)
    writer = compiled_messages.CompiledMessages(config, encoder)
    taken = [
        (writer.batch(one, 0, NOW) if isinstance(one, MessageBatch) else writer.message(one, 0, NOW)) is not None
        for one in (*usual, *unusual)
    ]
    assert taken == [True] * len(usual) + [False] * len(unusual)


def test_message_that_changes_while_it_is_encoded_stays_within_its_bytes() -> None:
    """A UNIQ_KEY is made between sizes and bytes; there another thread may run."""
    message = Message("t", b"body", "tag", ["k"], properties={"a": "b"}, sharding_key="s")

    class Encoder(MessageEncoder):
        def next_uniq_key(self) -> str:
            message.properties.clear()  # type: ignore[attr-defined]
            message.tags, message.keys, message.sharding_key, message.body = (
                "y" * 500,
                ["z" * 500],
                "w" * 500,
                b"v" * 900,
            )
            return "id"

    config = StoreConfig(enabled_append_prop_crc=False)
    records = compiled_messages.CompiledMessages(config, Encoder(config)).message(message, 0, NOW)
    assert records is not None
    assert records.data.endswith(b"a\x01b\x02KEYS\x01k\x02TAGS\x01tag\x02__SHARDINGKEY\x01s\x02UNIQ_KEY\x01id\x02")
    assert len(records.data) == records.size

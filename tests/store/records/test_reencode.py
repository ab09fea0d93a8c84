"""Re-encoded records: another topic and other properties, and everything else as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store import CorruptRecordError, MessageRejectedError
from rocketflow_store.format.properties import decode_properties, encode_properties
from rocketflow_store.format.record import RecordFields, decode_record, encode_record
from rocketflow_store.records.encoding.reencode import reencode

TEXTS = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]), min_size=1, max_size=9)
HOSTS = st.sampled_from([bytes([127, 0, 0, 1, 0, 0, 42, 159]), bytes(15) + bytes([1, 0, 0, 42, 159])])


def record(topic: bytes, body: bytes, properties: dict[str, str], host: bytes, with_crc: bool) -> bytes:
    fields = RecordFields(topic, 3, body, encode_properties(properties), 7, 0x1, 5, host, host, 2, 9)
    return encode_record(fields, 4096, 11, 1_700_000_000_000, with_crc)


@given(
    topic=st.sampled_from([b"t", b"x" * 127, b"%RETRY%" + b"g" * 150]),
    body=st.binary(max_size=50),
    properties=st.dictionaries(TEXTS, TEXTS, max_size=4),
    host=HOSTS,
    with_crc=st.booleans(),
    other=st.sampled_from([None, "u", "%RETRY%" + "h" * 200]),
    changes=st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS), max_size=4),
)
def test_record_has_the_new_topic_and_properties_only(
    topic: bytes,
    body: bytes,
    properties: dict[str, str],
    host: bytes,
    with_crc: bool,
    other: str | None,
    changes: dict[str, str | None],
) -> None:
    name = topic.decode() if other is None else other
    merged = {key: value for key, value in {**properties, **changes}.items() if value is not None}
    stored = record(topic, body, properties, host, with_crc)
    assert reencode(stored, topic=other, properties=changes) == record(name.encode(), body, merged, host, with_crc)
    assert reencode(stored) == stored
    assert decode_record(reencode(stored, topic="u", properties={"POP_CK": "1 2"})).properties["POP_CK"] == "1 2"


def test_damaged_record_is_refused() -> None:
    stored = bytearray(record(b"t", b"body", {"a": "b"}, bytes(8), True))
    stored[90] ^= 1
    with pytest.raises(CorruptRecordError):
        reencode(bytes(stored), topic="u")


def test_properties_that_do_not_fit_are_refused() -> None:
    stored = record(b"t", b"body", {"a": "b"}, bytes(8), True)
    for value in ("x" * 33_000, "a\x01b"):
        with pytest.raises(MessageRejectedError):
            reencode(stored, properties={"c": value})
    assert decode_properties(b"a\x01b\x02") == {"a": "b"}

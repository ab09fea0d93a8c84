"""Tags and index keys of a property string: those of its decoded properties, whatever the string holds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store.format.properties import decode_properties
from rocketflow_store.records.encoding.unplaced_record import dispatch_keys, index_keys

NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "XTAGS", "TAGSX", "a", ""])
VALUES = st.sampled_from(["", "v", "v w", "TAGS", "ä", "a\x01b", "\x01"])
SEGMENTS = st.builds("{}{}{}".format, NAMES, st.sampled_from(["\x01", ""]), VALUES)


@given(st.lists(SEGMENTS, max_size=6), st.booleans(), st.booleans())
@settings(max_examples=1_000, deadline=None, database=None)
def test_keys_are_those_of_the_decoded_properties(segments: list[str], ends: bool, tag_entries: bool) -> None:
    raw = ("\x02".join(segments) + "\x02" * ends).encode()
    properties = decode_properties(raw)
    tags = properties.get("TAGS", "")
    wanted = index_keys("t", properties.get("UNIQ_KEY"), properties.get("KEYS"), tags if tag_entries and tags else None)
    assert dispatch_keys(raw, "t", tag_entries) == (tags, wanted)

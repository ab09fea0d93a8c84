"""Messages as the wire has them, compared with what the store reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.spi.messages import Message, batch_body, message_property_text, property_text
from tests.support.odd_inputs import NEWEST, answers

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=8)
MESSAGES = st.builds(
    Message,
    topic=st.just("t"),
    body=st.binary(max_size=30),
    properties=st.dictionaries(NAMES, NAMES, max_size=3),
    flag=st.integers(0, 2**31 - 1),
)


@given(st.lists(MESSAGES, max_size=4))
def test_a_batch_has_the_bytes_of_the_store(messages: list[Message]) -> None:
    entries = [BatchEntry(one.flag, one.body, property_text(one.properties).encode()) for one in messages]
    assert batch_body(messages) == encode_batch_body(entries)
    for one in messages:
        assert decode_properties(property_text(one.properties).encode()) == one.properties


def test_a_batch_has_the_bytes_of_rocketmq() -> None:
    message = Message("t", b"hi", properties={"KEYS": "k", "WAIT": "true", "TAGS": "TagA"})
    assert batch_body([message]).hex() == (
        "00000033000000000000000000000000000000026869001b4b455953016b025741495401747275650254414753015461674102"
    )


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a": "b\x02"}])
def test_properties_that_cannot_be_read_back_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"propert"):
        property_text(properties)


def test_half_of_a_surrogate_pair_is_sent_as_rocketmq_sends_it() -> None:
    wanted = answers(NEWEST)["written properties", "half of a surrogate pair"]["bytes"]
    message = Message("t", b"x", properties={"a": "x\ud800y", "\udc00": "z"})
    assert message_property_text(message).encode().hex() == wanted
    assert batch_body([message]).hex().endswith(wanted)
    assert message_property_text(Message("t", b"x", tags="\ud800")) == "TAGS\x01?\x02"

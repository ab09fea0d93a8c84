"""Changes of the attributes of topics and groups: what is left, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.broker.topics.attributes import OF_GROUPS, OF_TOPICS, AttributesError, merged_attributes, parse_changes

VALUES = {
    "cleanup.policy": "DELETE",
    "message.type": "FIFO",
    "queue.type": "BatchCQ",
    "reserve.time": "-1",
}


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        (",", {}),
        ("+a=1", {"+a": "1"}),
        ("+a=1,-b,+c=2,", {"+a": "1", "-b": "", "+c": "2"}),
        ("+a=", {"+a": ""}),
        ("+a=1=2", {"+a": "1=2"}),
    ],
)
def test_a_text_of_changes_is_read(text: str, changes: dict[str, str]) -> None:
    assert parse_changes(text) == changes


@pytest.mark.parametrize("text", ["+a", "a=1", "-a=1", "+a=1,+a=2", "-a,-a", "a"])
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(AttributesError):
        merged_attributes({"a": "1"}, parse_changes(text), OF_TOPICS)


@pytest.mark.parametrize(
    ("known", "changes", "found"),
    [
        (None, {}, {}),
        (None, {f"+{name}": value for name, value in VALUES.items()}, VALUES),
        (VALUES, {}, VALUES),
        (VALUES, {"+message.type": "DELAY"}, {**VALUES, "message.type": "DELAY"}),
        ({"queue.type": "BatchCQ"}, {"+reserve.time": "72"}, {"queue.type": "BatchCQ", "reserve.time": "72"}),
        ({"message.type": "FIFO", "other": "1"}, {"-message.type": ""}, {"other": "1"}),
        ({"message.type": "FIFO"}, {"-message.type": "ignored"}, {}),
        (None, {"+reserve.time": "9223372036854775807"}, {"reserve.time": "9223372036854775807"}),
        (None, {"+reserve.time": "+5"}, {"reserve.time": "+5"}),
    ],
)
def test_changes_are_merged(known: dict[str, str] | None, changes: dict[str, str], found: dict[str, str]) -> None:
    before = None if known is None else dict(known)
    assert merged_attributes(known, changes, OF_TOPICS) == found
    assert known == before


@pytest.mark.parametrize(
    ("known", "changes", "why"),
    [
        (None, {"+no.such": "1"}, "no.such is unknown; known attributes: cleanup.policy, message.type, queue.type"),
        ({}, {"+no.such": "1"}, "no.such is unknown"),
        ({"no.such": "1"}, {"-no.such": ""}, "no.such is unknown"),
        (None, {"-message.type": ""}, "message.type is not set"),
        ({}, {"-message.type": ""}, "message.type is not set"),
        ({}, {"+queue.type": "BatchCQ"}, "queue.type is set when the topic is made"),
        ({"queue.type": "BatchCQ"}, {"+queue.type": "BatchCQ"}, "queue.type is set when the topic is made"),
        ({"queue.type": "BatchCQ"}, {"-queue.type": ""}, "queue.type is set when the topic is made"),
        ({}, {"+cleanup.policy": "DELETE"}, "cleanup.policy is set when the topic is made"),
        (None, {"+message.type": "fifo"}, "message.type=fifo: the value must be one of DELAY, FIFO"),
        (None, {"+message.type": ""}, "the value must be one of"),
        (None, {"+cleanup.policy": "COMPACTION"}, "is not supported: RocketFlow deletes old messages and does not"),
        (None, {"+message.type": "PRIORITY"}, "is not supported: RocketFlow does not choose queues by priority"),
        ({}, {"+message.type": "LITE"}, "is not supported: RocketFlow has no lite topics"),
        (None, {"+reserve.time": "-2"}, "the value must be a number from -1"),
        (None, {"+reserve.time": "9223372036854775808"}, "the value must be a number from -1"),
        (None, {"+reserve.time": "1.5"}, "the value must be a number"),
        (None, {"+reserve.time": "٣"}, "the value must be a number"),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}, "message.type is given twice"),
        (None, {"message.type": "FIFO"}, "neither"),
        ({"message.type": "FIFO"}, {"message.type": "FIFO"}, "neither"),
        (None, {"+": "1"}, "neither"),
        (None, {"": "1"}, "neither"),
        (None, {"++message.type": "FIFO"}, "neither"),
        (None, {"+message-type": "FIFO"}, "neither"),
    ],
)
def test_refused_changes_say_why(known: dict[str, str] | None, changes: dict[str, str], why: str) -> None:
    with pytest.raises(AttributesError) as caught:
        merged_attributes(known, changes, OF_TOPICS)
    assert why in str(caught.value)


@pytest.mark.parametrize(("known", "key"), [(None, "+k"), ({}, "+k"), ({"k": "v"}, "+k"), ({"k": "v"}, "-k")])
def test_groups_have_no_attributes_that_can_change(known: dict[str, str] | None, key: str) -> None:
    with pytest.raises(AttributesError, match=r"k is unknown; known attributes: none"):
        merged_attributes(known, {key: "v"}, OF_GROUPS)


@given(
    known=st.none() | st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in VALUES.items()}),
    changes=st.dictionaries(st.sampled_from([sign + name for sign in "+-" for name in VALUES]), st.just("FIFO")),
)
def test_only_what_is_named_changes(known: dict[str, str] | None, changes: dict[str, str]) -> None:
    try:
        found = merged_attributes(known, changes, OF_TOPICS)
    except AttributesError:
        return
    named = {key[1:] for key in changes}
    before = known or {}
    assert {name: found.get(name) for name in VALUES if name not in named} == {
        name: before.get(name) for name in VALUES if name not in named
    }
    assert {name for name in named if name in found} == {key[1:] for key in changes if key.startswith("+")}

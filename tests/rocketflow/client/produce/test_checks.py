"""Messages that brokers would refuse are refused before anything is sent."""

from __future__ import annotations

import pytest

from rocketflow.client.produce.checks import check_batch, check_group, check_message
from rocketflow.client.produce.errors import BadMessageError
from rocketflow_store.spi.messages import Message

BAD = [
    (Message("", b"b"), "name is empty"),
    (Message("a b", b"b"), "only letters"),
    (Message("t" * 128, b"b"), "at most 127"),
    (Message("SCHEDULE_TOPIC_XXXX", b"b"), "only the store itself"),
    (Message("t", b""), "no body"),
    (Message("t", bytes(101)), "at most 100"),
    (Message("t", b"b", delay_level=1, delay_s=2), "set one of"),
    (Message("t", b"b", delay_ms=-1), "set one of"),
]


@pytest.mark.parametrize(("message", "why"), BAD)
def test_a_bad_message_is_refused_with_the_reason(message: Message, why: str) -> None:
    with pytest.raises(BadMessageError, match=why):
        check_message(message, 100)


@pytest.mark.parametrize(
    "message",
    [
        *(Message("%RETRY%g", b"b"), Message("a|b-c_D9", b"b", delay_s=1), Message("t", bytes(100))),
        *(Message("t", b"b", delay_level=level) for level in (19, 99)),  # brokers have as many as they are set to
        Message("rmq_sys_TRACE_DATA_region", b"b"),
    ],
)
def test_a_good_message_passes(message: Message) -> None:
    check_message(message, 100)


def test_a_batch_has_one_topic_and_no_delay() -> None:
    assert check_batch([Message("t", b"a"), Message("t", b"b")], 100) == "t"
    for wrong, why in (
        ([], "at least one"),
        ([Message("t", b"a"), Message("u", b"b")], "one topic"),
        ([Message("t", b"a", delay_level=2)], "delayed"),
        ([Message("%RETRY%g", b"a")], "retry"),
    ):
        with pytest.raises(BadMessageError, match=why):
            check_batch(wrong, 100)


@pytest.mark.parametrize("group", ["", "DEFAULT_PRODUCER", "a b", "g" * 121])
def test_a_bad_group_is_refused(group: str) -> None:
    with pytest.raises(BadMessageError, match="producer group"):
        check_group(group)

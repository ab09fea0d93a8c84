"""Sends that their clients have signed, taken by the kernel: allowed and refused as sends taken one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.command import decode_command, encode_command
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.signature import Credentials, RequestMark
from rocketflow_store.kernel import COMPILED
from tests.support.sender import QUEUES, USUAL, Sender, end, send, text_of
from tests.support.signed import ADMIN, PLAIN_RULES, READER, WRITER, signed_frame
from tests.support.trials import some

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

Both = tuple[Sender, Sender]

FORGER: Final = Credentials("writer-1", "another secret")
ACCOUNTS: Final = (WRITER, WRITER, WRITER, ADMIN, READER, FORGER, Credentials("unknown", "x"), None)
HALF: Final = text_of({**USUAL, "TRAN_MSG": "true", "PGROUP": "producers"})
ENTRY: Final = (22 + 1 + len(text_of(USUAL))).to_bytes(4, "big") + bytes(12) + b"\0\0\0\1x"
BATCH: Final = (ENTRY + len(text_of(USUAL)).to_bytes(2, "big") + text_of(USUAL).encode()) * 3
RICH: Final = text_of({**USUAL, "KEYS": "k é", "own": 'a"\\'})
RULES_BY_ADDRESS: Final = PLAIN_RULES.replace("Addresses: []", "Addresses: [10.9.8.*]")


def begun(senders: Callable[..., Both], **options: Any) -> Both:
    """Make two senders with accounts; each queue has a message, so the kernel was taught them."""
    both = senders(rules=options.pop("rules", PLAIN_RULES), **options)
    for topic in ("orders", "t|1"):
        check(both, *(signed_frame(send(queue, e=str(queue), b=topic), ADMIN) for queue in range(QUEUES)))
    return both


def check(both: Both, *reads: bytes) -> list[int]:
    """Let both receive some reads; their answers are the same. Return the codes."""
    on, off = (one.feed(*reads) for one in both)
    assert on == off
    return [decode_command(one).code for one in FrameReceiver().feed(on.replace(b"closed", b""))]


def check_all(both: Both) -> None:
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()


SENDS: Final = st.builds(
    lambda opaque, body, by, **more: signed_frame(send(opaque, body, **more), by),
    st.integers(0, 1 << 30),
    st.binary(max_size=99),
    st.sampled_from(ACCOUNTS),
    properties=st.sampled_from([text_of(USUAL), RICH, HALF]),
    b=st.sampled_from(["orders", "orders", "t|1"]),
    e=st.sampled_from([*map(str, range(QUEUES))]),
    a=st.sampled_from(["producers", "é", "", "~rocketflow1~"]),
    f=st.sampled_from(["0", "4"]),
    j=st.sampled_from(["0", None]),
    n=st.sampled_from(["broker-a", None]),
    l=st.sampled_from([None, "16"]),
    _code=st.sampled_from([310, 310, 10]),
    binary=st.booleans(),
) | st.builds(
    lambda opaque, by, binary: signed_frame(send(opaque, BATCH, m="true", _code=320, binary=binary), by),
    st.integers(0, 1 << 30),
    st.sampled_from(ACCOUNTS),
    st.booleans(),
)


@pytest.mark.parametrize("rules", [PLAIN_RULES, RULES_BY_ADDRESS], ids=["accounts", "an address that may do all"])
def test_sends_are_allowed_and_refused_as_one_by_one(senders: Callable[..., Both], rules: str) -> None:
    both = begun(senders, rules=rules)

    @given(st.lists(st.lists(SENDS, min_size=1, max_size=9).map(b"".join), min_size=1, max_size=4))
    def trial(reads: list[bytes]) -> None:
        check(both, *reads)

    settings(max_examples=some(200), deadline=None)(trial)()
    assert both[0].taken > 10
    assert both[0].take_halves() == both[1].take_halves()
    check_all(both)


def test_signed_sends_of_every_kind_are_taken(senders: Callable[..., Both]) -> None:
    both = begun(senders)
    unusual = {"properties": RICH, "ascii": False}, {"l": "16", "n": None}
    for more in ({}, {"_code": 10}, *unusual, *({"_code": 10, **one} for one in unusual)):
        for binary in (False, True):
            taken = both[0].taken
            sent = [signed_frame(send(one, bytes([one]), binary=binary, **more), WRITER) for one in range(4)]
            assert check(both, b"".join(sent)) == [0] * 4
            assert (both[0].taken, both[0].both.left_over) == (taken + 1, 0), (more, binary)
    taken = both[0].taken
    assert check(both, signed_frame(send(1, BATCH, m="true", _code=320), WRITER)) == [0]
    assert check(both, signed_frame(send(1, b"half", HALF, f="4"), WRITER)) == [0]
    assert both[0].taken == taken + 2
    check_all(both)


def test_forged_send_among_others_is_refused_alone(senders: Callable[..., Both]) -> None:
    both = begun(senders)
    good = [signed_frame(send(one), WRITER) for one in range(3)]
    for bad in (
        signed_frame(send(9), FORGER),
        signed_frame(send(9, b="t|1"), WRITER),
        signed_frame(send(9), READER),
        send(9),
        good[0].replace(b"body", b"bodY"),
        good[0].replace(b'"e":"1"', b'"e":"2"'),
    ):
        assert sorted(check(both, good[0] + bad + good[1], good[2])) == [0, 0, 0, ResponseCode.NO_PERMISSION]
    for name in ("Signature", "AccessKey"):
        command = decode_command(next(FrameReceiver().feed(good[0])))
        del command.fields[name]
        assert check(both, encode_command(command)) == [ResponseCode.NO_PERMISSION]
    check_all(both)


def test_marked_send_counts_once_and_its_mark_cannot_be_moved(senders: Callable[..., Both]) -> None:
    both = begun(senders)
    mark = RequestMark(int(time.time() * 1000), "c" * 22, 1, "")
    data = signed_frame(send(1), WRITER, mark)
    assert check(both, data, data) == [0, ResponseCode.NO_PERMISSION]
    command = decode_command(next(FrameReceiver().feed(signed_frame(send(1), WRITER, mark._replace(number=2)))))
    moved = command.fields.pop("AccessKeyMark")
    command.fields["a"] = moved + command.fields["a"]  # the content is the same
    assert check(both, encode_command(command)) == [ResponseCode.NO_PERMISSION]
    check_all(both)


def test_ends_of_transactions_are_checked_one_by_one(senders: Callable[..., Both]) -> None:
    both = begun(senders)
    found = []
    for one in both:
        answer = decode_command(next(FrameReceiver().feed(one.feed(signed_frame(send(1, b"", HALF, f="4"), WRITER)))))
        found.append((int(answer.fields["queueOffset"]), int(answer.fields["msgId"][16:], 16)))
    assert found[0] == found[1]
    for by in (None, FORGER, READER, WRITER):
        before = both[0].exported.half_messages["orders"]
        check(both, signed_frame(end(found[0]), by) + signed_frame(send(2), WRITER))
        assert both[0].exported.half_messages["orders"] == before - (by is WRITER)
    assert both[0].exported.committed == both[1].exported.committed
    assert sum(both[0].exported.committed.values()) == 1

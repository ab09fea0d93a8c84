"""Frames: divided anywhere, and bytes that are none."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting.errors import FrameError
from rocketflow.remoting.frame import MAX_FRAME_SIZE, Frame, FrameReceiver, HeaderType, frame_bytes, frame_parts
from tests.support.trials import SEED

FRAMES = st.lists(
    st.builds(Frame, st.sampled_from(HeaderType), st.binary(max_size=40), st.binary(max_size=40)),
    min_size=1,
    max_size=4,
)


def written(frame: Frame) -> bytes:
    return frame_bytes(frame.header_type, frame.header, frame.body)


@given(FRAMES, st.data())
def test_frames_do_not_depend_on_where_their_bytes_are_divided(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(written(one) for one in frames)
    receiver = FrameReceiver()
    found: list[Frame] = []
    position = 0
    while position < len(stream):
        size = data.draw(st.integers(1, len(stream) - position))
        found += receiver.feed(stream[position : position + size])
        position += size
    assert found == frames
    assert receiver.pending_size == 0


def test_frames_arrive_byte_by_byte() -> None:
    frame = Frame(HeaderType.JSON, b'{"code":1}', b"body")
    receiver = FrameReceiver()
    found = [one for byte in written(frame) for one in receiver.feed(bytes([byte]))]
    assert found == [frame]


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_frame_error(data: bytes) -> None:
    receiver = FrameReceiver()
    try:
        frames = list(receiver.feed(data))
    except FrameError:
        return
    again = b"".join(written(one) for one in frames)
    assert data.startswith(again)
    assert receiver.pending_size == len(data) - len(again)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\xff\xff\0\0\0\0", id="negative size"),
        pytest.param(b"\0\0\0\3\0\0\0\0", id="no room for the header's size"),
        pytest.param((MAX_FRAME_SIZE - 3).to_bytes(4, "big"), id="too large"),
        pytest.param(b"\0\0\0\5\0\0\0\2\0", id="header larger than the frame"),
        pytest.param(b"\0\0\0\4\2\0\0\0", id="unknown header type"),
        pytest.param(b"\x16\x03\x01\x02\0\1\0\1", id="TLS"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
    ],
)
def test_bytes_that_cannot_be_a_frame_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        list(FrameReceiver().feed(data))


def test_the_largest_frame_is_taken() -> None:
    body = bytes(MAX_FRAME_SIZE - 8)
    [frame] = FrameReceiver().feed(frame_bytes(HeaderType.JSON, b"", body))
    assert len(frame.body) == MAX_FRAME_SIZE - 8


@pytest.mark.parametrize("size", [1, 4095, 4096, 70_000, 2_000_000])
def test_large_frames_arrive_whole_whatever_the_sizes_of_their_parts(size: int) -> None:
    rng = random.Random(SEED)
    frames = [Frame(HeaderType.JSON, b"{}", rng.randbytes(size)) for _ in range(3)]
    data = b"".join(part for one in frames for part in frame_parts(one.header_type, one.header, one.body))
    assert data == b"".join(map(written, frames))
    for most in (3, 5_000, 300_000) if size < 100_000 else (5_000, 300_000):
        receiver, found, begin = FrameReceiver(), [], 0
        while begin < len(data):
            end = begin + rng.randint(1, most)
            found += receiver.feed(data[begin:end])
            begin = end
        assert (found, receiver.pending_size) == (frames, 0), f"seed {SEED}, parts of up to {most} bytes"


def test_a_frame_that_arrives_byte_by_byte_needs_little_more_memory_than_its_bytes() -> None:
    data = frame_bytes(HeaderType.JSON, b"{}", bytes(30_000))[:-1]
    receiver = FrameReceiver()
    tracemalloc.start()
    try:
        for number in range(len(data)):
            assert list(receiver.feed(data[number : number + 1])) == []
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert receiver.pending_size == len(data)
    assert held < 2 * len(data)

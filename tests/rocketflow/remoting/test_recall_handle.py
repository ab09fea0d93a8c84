"""Handles of recalls: as RocketMQ writes them, and any other text is refused."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting.errors import HeaderError
from rocketflow.remoting.recall_handle import RecallHandle, decode_recall_handle

WRITTEN_BY_ROCKETMQ = "djEgb3JkZXJzIGJyb2tlci1hIDE3NjQwMDAwMDAwMDEgN0YwMDAwMDEwMDAwMkExMzlBNTUwMDAwMDAwMA=="
HANDLE = RecallHandle("orders", "broker-a", 1_764_000_000_001, "7F00000100002A139A5500000000")


def encoded(plain: str) -> str:
    return base64.urlsafe_b64encode(plain.encode()).decode()


def test_a_handle_has_rocketmqs_text() -> None:
    assert HANDLE.encode() == WRITTEN_BY_ROCKETMQ
    assert decode_recall_handle(WRITTEN_BY_ROCKETMQ) == HANDLE


@pytest.mark.parametrize(
    "text",
    [
        *("", "=", "djE", "é", "v1 a b 1 c"),
        *map(encoded, ("v2 t b 1 k", "v1 t b x k", "v1 t b 1", "v1 t b 1 k more", "v1 t b 1 k\x01v\x02")),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(HeaderError):
        decode_recall_handle(text)


@given(st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    with contextlib.suppress(HeaderError):
        handle = decode_recall_handle(text)
        assert decode_recall_handle(handle.encode()) == handle

"""Prepared requests and answers say the same as those that are encoded each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting.command import (
    ONE_WAY_FLAG,
    RESPONSE_FLAG,
    Command,
    decode_command,
    encode_command,
    request,
)
from rocketflow.remoting.frame import FrameReceiver, HeaderType
from rocketflow.remoting.headers.header import encode_fields
from rocketflow.remoting.headers.send import SendMessageRequestHeaderV2
from rocketflow.remoting.prepared_frame import PreparedFrame, number_value, text_value


def decoded(frame: bytes) -> Command:
    return decode_command(next(FrameReceiver().feed(frame)))


@given(
    group=st.text(),
    properties=st.text(),
    born=st.integers(0, 2**63 - 1),
    opaque=st.integers(0, 2**31 - 1),
    body=st.binary(max_size=50),
    one_way=st.booleans(),
)
def test_frame_says_what_the_request_with_these_fields_says(
    group: str, properties: str, born: int, opaque: int, body: bytes, one_way: bool
) -> None:
    header = SendMessageRequestHeaderV2(
        producer_group=group,
        topic="%d %b %%",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=0,
        born_timestamp=born,
        flag=0,
        properties=properties,
    )
    fields = encode_fields(header)
    fixed = {name: value for name, value in fields.items() if name not in "gi"}
    prepared = PreparedFrame(310, fixed, "gi", flag=ONE_WAY_FLAG if one_way else 0)
    found = decoded(prepared.frame(opaque, (number_value(born), text_value(properties)), body))
    expected = decoded(encode_command(request(310, header, body=body, opaque=opaque, one_way=one_way)))
    for name in ("code", "fields", "body", "flag", "opaque", "version", "language", "remark", "header_type"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.header(SendMessageRequestHeaderV2) == header


def test_request_without_fixed_fields_is_one_too() -> None:
    assert decoded(PreparedFrame(34, {}, ["a"]).frame(7, (text_value("x"),), b"")).fields == {"a": "x"}


@given(key=st.text(), offset=st.integers(0, 2**63 - 1), opaque=st.integers(0, 2**31 - 1))
def test_prepared_answer_has_the_bytes_of_an_encoded_one(key: str, offset: int, opaque: int) -> None:
    fixed = {"MSG_REGION": "100% é", "TRACE_ON": "true"}
    fields = {**fixed, "queueOffset": str(offset), "transactionId": key}
    prepared = PreparedFrame(0, fixed, ("queueOffset", "transactionId"), flag=RESPONSE_FLAG)
    found = prepared.frame(opaque, (number_value(offset), text_value(key)))
    assert found == encode_command(Command(0, fields, flag=RESPONSE_FLAG, opaque=opaque))


@given(key=st.text(), offset=st.integers(0, 2**63 - 1), opaque=st.integers(-(2**31), 2**31 - 1))
def test_binary_parts_are_those_of_an_encoded_answer(key: str, offset: int, opaque: int) -> None:
    fixed = {"MSG_REGION": "100% é", "TRACE_ON": "true"}
    fields = {**fixed, "queueOffset": str(offset), "transactionId": key}
    first, second, before, after = PreparedFrame(0, fixed, [*fields][2:], flag=RESPONSE_FLAG).binary_parts()
    values = [len(one).to_bytes(4, "big") + one for one in (str(offset).encode(), key.encode())]
    written = first + values[0] + second + values[1]
    header = before + opaque.to_bytes(4, "big", signed=True) + after + len(written).to_bytes(4, "big") + written
    answer = Command(0, fields, flag=RESPONSE_FLAG, opaque=opaque, header_type=HeaderType.ROCKETMQ)
    assert encode_command(answer)[8:] == header

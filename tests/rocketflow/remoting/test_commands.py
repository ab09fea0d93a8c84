"""Requests and answers in both header types."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting.command import (
    LANGUAGES,
    ONE_WAY_FLAG,
    RESPONSE_FLAG,
    Command,
    answer,
    decode_command,
    encode_command,
    request,
)
from rocketflow.remoting.errors import HeaderError
from rocketflow.remoting.frame import Frame, FrameReceiver, HeaderType
from rocketflow.remoting.headers import admin, client, offset, pull, route, send, transaction
from rocketflow.remoting.headers.header import Header, encode_fields
from rocketflow.remoting.headers.route import GetRouteInfoRequestHeader

JSON_EXAMPLE = bytes.fromhex("000000940000008e") + (
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"language":"JAVA","opaque":7,"remark":"hi",'
    b'"serializeTypeCurrentRPC":"JSON","version":479}xy'
)
ROCKETMQ_EXAMPLE = bytes.fromhex(
    "0000002e010000280069 0001df0000000700000000000000026869000000110005746f70696300000006546f70696341 7879"
)
"""What RocketMQ's own classes write for the same request."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def headers() -> list[type[Header]]:
    """Return all header classes."""
    modules = [admin, client, offset, pull, route, send, transaction]
    found = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    return sorted((one for one in found if issubclass(one, Header)), key=lambda one: one.__name__)


def decoded(data: bytes) -> Command:
    [frame] = FrameReceiver().feed(data)
    return decode_command(frame)


def seen(command: Command) -> tuple[Any, ...]:
    return (
        *(command.code, command.fields, command.flag, command.opaque, command.version),
        *(command.language, command.remark, command.body, command.header_type),
    )


@pytest.mark.parametrize(
    ("data", "header_type"),
    [
        pytest.param(JSON_EXAMPLE, HeaderType.JSON, id="JSON"),
        pytest.param(ROCKETMQ_EXAMPLE, HeaderType.ROCKETMQ, id="ROCKETMQ"),
    ],
)
def test_the_bytes_of_rocketmq_are_read_and_written(data: bytes, header_type: HeaderType) -> None:
    command = decoded(data)
    assert seen(command) == (105, {"topic": "TopicA"}, 0, 7, 479, "JAVA", "hi", b"xy", header_type)
    assert encode_command(command) == data


@given(
    st.integers(-(2**15), 2**15 - 1),
    st.dictionaries(TEXTS, TEXTS, max_size=4),
    st.sampled_from(HeaderType),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(LANGUAGES),
    st.none() | TEXTS.filter(bool),
    st.binary(max_size=20),
)
def test_a_command_comes_back_as_it_was_sent(
    code: int,
    fields: dict[str, str],
    header_type: HeaderType,
    opaque: int,
    language: str,
    remark: str | None,
    body: bytes,
) -> None:
    sent = Command(
        code, fields, body=body, opaque=opaque, language=language, remark=remark, header_type=header_type, flag=2
    )
    assert seen(decoded(encode_command(sent))) == seen(sent)


@given(st.sampled_from(HeaderType), st.binary(max_size=80))
def test_any_header_gives_a_command_or_a_header_error(header_type: HeaderType, data: bytes) -> None:
    try:
        command = decode_command(Frame(header_type, data, b""))
        command.fields  # noqa: B018
    except HeaderError:
        return
    assert isinstance(command.code, int)


def test_an_answer_repeats_opaque_and_header_type() -> None:
    asked = decoded(ROCKETMQ_EXAMPLE)
    given_back = decoded(encode_command(answer(asked, 17, remark="none")))
    assert (given_back.code, given_back.opaque, given_back.header_type) == (17, 7, HeaderType.ROCKETMQ)
    assert given_back.flag == RESPONSE_FLAG
    assert given_back.is_response


def test_a_one_way_request_says_so() -> None:
    sent = request(15, one_way=True)
    assert sent.flag == ONE_WAY_FLAG
    assert decoded(encode_command(sent)).is_one_way


def test_a_code_that_does_not_fit_a_rocketmq_header_is_refused() -> None:
    with pytest.raises(HeaderError):
        encode_command(Command(200050, header_type=HeaderType.ROCKETMQ))


@pytest.mark.parametrize("language", ["GO", "9", 9])
def test_a_language_is_a_name_or_a_number(language: str | int) -> None:
    header = msgspec.json.encode({"code": 1, "language": language})
    assert decode_command(Frame(HeaderType.JSON, header, b"")).language == "GO"


@pytest.mark.parametrize(
    "fields", [b'{"topic":"4","acceptStandardJsonOnly":true}', b'{"topic":4,"acceptStandardJsonOnly":"true","ns":null}']
)
def test_fields_may_be_numbers_booleans_and_nulls(fields: bytes) -> None:
    command = decode_command(Frame(HeaderType.JSON, b'{"code":105,"extFields":' + fields + b"}", b""))
    header = command.header(GetRouteInfoRequestHeader)
    assert (header.topic, header.accept_standard_json_only, header.ns) == ("4", True, None)
    assert command.fields == {"topic": "4", "acceptStandardJsonOnly": "true"}


@pytest.mark.parametrize("fields", [b"{}", b"null", b'{"topic":{}}', b"[]", b'"x"'])
def test_fields_that_are_missing_or_wrong_are_refused(fields: bytes) -> None:
    command = decode_command(Frame(HeaderType.JSON, b'{"code":105,"extFields":' + fields + b"}", b""))
    with pytest.raises(HeaderError):
        command.header(GetRouteInfoRequestHeader)


def value(annotation: object) -> Any:
    """Return a value of a field's type."""
    text = str(annotation)
    return "text-ä" if "str" in text else True if "bool" in text else 2**31 - 1


@pytest.mark.parametrize("header", headers(), ids=lambda one: one.__name__)
@pytest.mark.parametrize("header_type", HeaderType)
def test_each_header_comes_back_and_misses_what_is_demanded(header: type[Header], header_type: HeaderType) -> None:
    fields = msgspec.structs.fields(header)
    full = header(**{one.name: value(one.type) for one in fields})
    texts = encode_fields(full)
    assert set(texts) == {one.encode_name for one in fields}

    def sent(texts: dict[str, str]) -> Command:
        return decoded(encode_command(Command(11, texts, header_type=header_type)))

    assert sent(texts).header(header) == full
    for one in fields:
        rest = {name: text for name, text in texts.items() if name != one.encode_name}
        if one.required:
            with pytest.raises(HeaderError, match=one.encode_name):
                sent(rest).header(header)
        else:
            assert getattr(sent(rest).header(header), one.name) == one.default

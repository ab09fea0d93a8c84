"""Headers and bodies against what RocketMQ's own classes write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rocketflow.remoting import bodies, codes
from rocketflow.remoting.command import LANGUAGES, decode_command, encode_command
from rocketflow.remoting.errors import BodyError
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.headers.header import Header, encode_fields
from rocketflow.remoting.headers.send import SendMessageRequestHeaderV2
from tests.rocketflow.remoting.test_commands import headers
from tests.support import golden_remoting as golden

CLASSES: dict[str, type[Header]] = {
    **{one.__name__: one for one in headers()},
    "SendMessageRequestHeaderV2": SendMessageRequestHeaderV2,
}
INHERITED = {"ns", "nsd", "bname", "oway", "lo"}
"""Fields that some classes of RocketMQ inherit, and that RocketFlow's classes, of another version, do not have."""

BODIES: dict[str, type[bodies.Body]] = {
    **{one.__name__: one for one in vars(bodies).values() if isinstance(one, type) and issubclass(one, bodies.Body)},
    "MessageQueue": bodies.MessageQueueBody,
}


def samples() -> list[Any]:
    return [
        pytest.param(one, id=f"{version} {one.class_name} {one.name}")
        for version in golden.VERSIONS
        for one in golden.header_samples(version)
        if one.class_name in CLASSES
    ]


@pytest.mark.parametrize("sample", samples())
def test_frames_of_rocketmq_are_read(sample: golden.HeaderSample) -> None:
    for one in sample.frames:
        [frame] = FrameReceiver().feed(one.frame)
        command = decode_command(frame)
        fields = {name: text for name, text in (one.ext or {}).items() if text}
        assert {name: text for name, text in command.fields.items() if text} == fields
        assert (command.code, command.flag, command.opaque, command.version) == (
            *(one.code, one.flag, one.opaque, one.version),
        )
        assert (command.language, command.remark or None, command.body) == (one.language, one.remark or None, one.body)
        read = command.header(CLASSES[sample.class_name])
        written = encode_fields(read)
        known = {field.encode_name for field in msgspec.structs.fields(CLASSES[sample.class_name])}
        expected = {name: text for name, text in fields.items() if name in known}
        assert {name: text for name, text in written.items() if text and (name in expected)} == expected
        [again] = FrameReceiver().feed(encode_command(command))
        assert decode_command(again).fields == command.fields


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_no_field_of_rocketmq_is_forgotten(version: str) -> None:
    for sample in golden.header_samples(version):
        header = CLASSES.get(sample.class_name)
        if header is None or sample.name != "all":
            continue
        known = {field.encode_name: field.required for field in msgspec.structs.fields(header)}
        named = {one.name: one.is_required for one in sample.fields if one.name not in INHERITED}
        assert named.keys() <= known.keys(), sample.class_name
        for name, is_required in named.items():
            assert known[name] <= is_required or version == "4.9.7", (sample.class_name, name)


def test_every_request_code_of_rocketmq_is_named() -> None:
    rocketmq = golden.codes("5.3.3")
    own = {one.name: one.value for one in codes.RequestCode}
    for name, number in rocketmq["RequestCode"].items():
        assert own.get(name, number) == number
    assert {name: number for name, number in rocketmq["ResponseCode"].items() if number in (17, 26, 1500)} == {
        one.name: one.value for one in codes.ResponseCode if one.value in (17, 26, 1500)
    }
    assert {name: number for number, name in enumerate(LANGUAGES)} == rocketmq["LanguageCode"]


def body_samples() -> list[Any]:
    return [
        pytest.param(one, id=f"{version} {one.class_name} {one.name}")
        for version in golden.VERSIONS
        for one in golden.body_samples(version)
        if one.class_name in BODIES and one.inflated is None
    ]


@pytest.mark.parametrize("sample", body_samples())
def test_bodies_of_rocketmq_are_read(sample: golden.BodySample) -> None:
    body = BODIES[sample.class_name]
    if not isinstance(sample.values, dict):
        return
    try:
        read = bodies.decode_body(sample.data, body)
    except BodyError:
        pytest.fail(f"{sample.class_name} {sample.name}: {sample.data.decode()}")
    written = msgspec.to_builtins(read)
    for field in msgspec.structs.fields(body):
        value = sample.values.get(field.encode_name)
        if isinstance(value, str | int | bool):
            assert written[field.encode_name] == value

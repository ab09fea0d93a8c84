"""Headers and bodies against what RocketMQ's own classes write."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import msgspec
import pytest

from rocketflow.namesrv.registration import decode_registration
from rocketflow.namesrv.route_table import Registration
from rocketflow.remoting import bodies, codes
from rocketflow.remoting.command import LANGUAGES, Command, decode_command, encode_command
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.headers.header import Header, encode_fields
from rocketflow.remoting.headers.route import RegisterBrokerRequestHeader
from rocketflow.remoting.headers.send import SendMessageRequestHeaderV2
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig, TableRow
from rocketflow_store.tables.table_row import entry_of
from tests.rocketflow.remoting.test_commands import headers
from tests.support import golden_remoting as golden

CLASSES: dict[str, type[Header]] = {
    **{one.__name__: one for one in headers()},
    "SendMessageRequestHeaderV2": SendMessageRequestHeaderV2,
}
INHERITED = {"ns", "nsd", "bname", "oway", "lo"}
"""Fields that some classes of RocketMQ inherit, and that RocketFlow's classes, of another version, do not have."""

BODIES: dict[str, type[bodies.Body | TableRow]] = {
    **{
        one.__name__: one
        for one in vars(bodies).values()
        if isinstance(one, type) and issubclass(one, (bodies.Body, TableRow))
    },
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
    if not isinstance(sample.values, dict):
        return
    body = BODIES[sample.class_name]
    written = bodies.encode_body(bodies.decode_body(sample.data, body))
    assert agrees(json.loads(written), sample.values), written


def test_lists_of_rows_are_read() -> None:
    samples = [one for one in golden.body_samples("5.3.3") if one.class_name == "SubscriptionGroupList"]
    assert samples
    for sample in samples:
        rows = bodies.decode_rows(sample.data, "groupConfigList", SubscriptionGroupConfig)
        written = bodies.encode_body({"groupConfigList": [entry_of(one) for one in rows]})
        assert agrees(json.loads(written), sample.values), written


def agrees(written: Any, values: Any) -> bool:
    """Return whether every member of RocketMQ's JSON has the same value in RocketFlow's."""
    if isinstance(values, dict):
        return isinstance(written, dict) and all(agrees(written.get(name), one) for name, one in values.items())
    if isinstance(values, list):
        return len(written) == len(values) and all(map(agrees, written, values))
    return bool(written == values)


def test_bodies_are_written_as_rocketmq_writes_them() -> None:
    """The same bytes where every member is set; only maps are in the order of their keys, and numbers are quoted."""
    exact = 0
    for sample in golden.body_samples("5.3.3"):
        if sample.class_name not in BODIES or sample.name != "filled":
            continue
        written = bodies.encode_body(bodies.decode_body(sample.data, BODIES[sample.class_name]))
        exact += written == sample.data
        values = sample.values | ({"forbiddenTable": {}} if sample.class_name == "SubscriptionGroupWrapper" else {})
        assert written.decode() == json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert exact > 18


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_frames_are_written_as_rocketmq_writes_them(version: str) -> None:
    """The same bytes, but two spellings of JSON: an empty `extFields`, and characters that fastjson escapes."""
    exact = 0
    frames = [*golden.frame_samples(version), *(one for each in golden.header_samples(version) for one in each.frames)]
    for one in frames:
        [frame] = FrameReceiver().feed(one.frame)
        written = encode_command(decode_command(frame))
        if written == one.frame:
            exact += 1
            continue
        assert one.serialize == "JSON"
        assert b'"extFields":{},' in one.frame or re.search(rb"\\u(2028|007F|001F)", one.frame), one.frame
        [again] = FrameReceiver().feed(written)
        expected = json.loads(frame.header)
        assert json.loads(again.header) == {name: value for name, value in expected.items() if value != {}}
        assert again.body == frame.body
    assert exact > 0.85 * len(frames)


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_a_compressed_registration_is_read(version: str) -> None:
    [sample] = [one for one in golden.body_samples(version) if one.inflated is not None]
    found = registered(sample.data)
    wrapper = sample.values["topicConfigSerializeWrapper"]
    topics = {name: one | {"order": False} for name, one in wrapper["topicConfigTable"].items()}  # it has no `order`
    assert agrees({name: msgspec.to_builtins(one) for name, one in found.topics.items()}, topics)
    assert found.topics.keys() == topics.keys()
    assert found.filter_servers == sample.values["filterServerList"]
    assert agrees(msgspec.to_builtins(found.data_version), wrapper["dataVersion"])


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_topics_of_a_compressed_registration_are_read(version: str) -> None:
    for sample in golden.text_samples(version, "topic_config"):
        texts = [b"{}", sample.result.encode(), b"[]"]
        first, line, last = (len(one).to_bytes(4, "big") + one for one in texts)
        found = registered(zlib.compress(first + (1).to_bytes(4, "big") + line + last))
        assert agrees(msgspec.to_builtins(found.topics[sample.given["topicName"]]), sample.given)


def registered(body: bytes) -> Registration:
    fields = {"brokerName": "b", "brokerAddr": "h:1", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "0"}
    command = Command(103, fields | {"compressed": "true"}, body=body)
    return decode_registration(command, command.header(RegisterBrokerRequestHeader))

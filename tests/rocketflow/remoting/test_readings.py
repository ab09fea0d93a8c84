"""Frames, headers and bodies in spellings that RocketMQ does not write: read as RocketMQ reads them.

A case that is read otherwise is in one of the tables below, with the reason. A case that is in a table and is read as
RocketMQ reads it fails, too.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest

from rocketflow.remoting import bodies, fastjson
from rocketflow.remoting.command import Command, decode_command
from rocketflow.remoting.errors import BodyError, FrameError, HeaderError
from rocketflow.remoting.frame import FrameReceiver, HeaderType
from tests.rocketflow.remoting.test_golden import BODIES, CLASSES
from tests.support import golden_remoting as golden

REFUSED: Final = "refused"
MADE_AT: Final = 1_700_000_000_000
"""RocketMQ's clock when it made the golden files (ms): a subscription without a version gets it."""

OTHER_FRAMES: Final = {
    "no request code, or one that is no integer: refused": {
        *("{}", "{ }", '{"code":1.5}', '{"code":true}', '{"code":null,"opaque":null}', '{"code":NaN}', '{"code":+5}'),
        '{"CODE":105,"Opaque":7}',
    },
    "a header in fastjson's own spellings, which no client writes: refused": {
        *("{code:105,opaque:7}", "{'code':105,'remark':'it'}", '{"code":105,}', '{/* c */"code":105}'),
        *('{"code":105,"remark":5}', '{"code":105,"remark":"a\nb"}', '{"code":105,"remark":"\\ud83d"}'),
        r'{"code":105,"remark":"\u00fc\uD83D\uDE80\/\b\x41"}',
        '{"code":105,"extFields":{"o":{"b":1,"a":[1, 2]},"l":[1, "x"]}}',
        '{"code":105,"extFields":{"a":"x","b":{"$ref":"$.extFields.a"}}}',
    },
    "a field that is a number with a fraction: as Python writes it": {
        '{"code":105,"extFields":{"i":5,"l":-9223372036854775808,"b":true,"d":1.50,"e":1e3,"n":null,"s":"x"}}',
    },
    "text that is no UTF-8: refused": {"remark that is not UTF-8"},
    "lengths that disagree: refused": {
        *("value that ends after the map", "negative length of the map", "bytes after the map"),
    },
    "an empty text stays one": {"empty value", "empty key"},
}
OTHER_FRAMES_THAN_49: Final = {
    "the class of a member is not read, as by 5.3.3": {'{"@type":"java.util.HashMap","code":105}'},
    "text that is no UTF-8: refused, as by 5.3.3": {"bytes that are not UTF-8"},
}
OTHER_HEADERS: Final = {
    ("int", "٥"): "digits of other scripts are refused",
    ("bool", "1"): "looking for this spelling would double the time of each header",
    ("bool", "null"): "as above",
    ("boundaryType", None): "the processor reads the word",
    ("commitOrRollback", "4"): "the processor refuses the number",
    ("topicFilterType", None): "any word is kept",
}
OTHER_BODIES: Final = {
    "offsets of a queue are plain JSON here; the reader of that body checks them": {
        '{"offsetTable":[[{"brokerName":"b","queueId":0,"topic":"T"},5]]}',
        *('{"offsetTable":{{"topic":"T"}:5}}', '{"offsetTable":{{}:5}}', '{"offsetTable":{"T":5}}'),
        '{"offsetTable":{{"queueId":"7","x":[]}:"5"}}',
    },
    "commas with nothing between them, comments, marks, escapes and words that no client writes: refused": {
        '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5,}}',
        *('/* c */{"orderTopicConf":"x"}', '\ufeff{"orderTopicConf":"x"}', r'{"orderTopicConf":"\u0041\x42\0"}'),
        *('{"orderTopicConf":undefined}', '{"orderTopicConf":NaN}', '{,"orderTopicConf":"x"}'),
        '{"orderTopicConf":"x",,}',
    },
    "a broker id may be any text: brokers are asked for id 0": {
        '{"brokerDatas":[{"brokerAddrs":{a:"x:1"},"brokerName":"b","cluster":"c"}]}',
        '{"brokerDatas":[{"brokerAddrs":{"a":"x:1"},"brokerName":"b","cluster":"c"}]}',
        '{"brokerDatas":[{"brokerAddrs":{9223372036854775808:"x"},"brokerName":"b","cluster":"c"}]}',
    },
    "a value of another type: refused": {
        '{"brokerDatas":[{"brokerAddrs":{0:5},"brokerName":"b","cluster":"c"}]}',
        *('{"queueDatas":{}}', '{"orderTopicConf":5}', '{"orderTopicConf":true}', '{"clientID":7}'),
        '{"consumerDataSet":[{"groupName":"g","consumeType":1,"messageModel":0,"unitMode":"true"}]}',
    },
    "nulls of a list are skipped": {
        '{"queueDatas":[null]}',
        '{"consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T","codeSet":["65",66.0,null]}]}]}',
    },
    "names of members are compared as they are": {'{"ORDERTOPICCONF":"x"}', '{"order_topic_conf":"x"}'},
    "a reference to what comes later is read, and one to nothing is refused; RocketMQ reads an empty subscription": {
        '{"clientID":"c","consumerDataSet":[{"groupName":"h","subscriptionDataSet":'
        '[{"$ref":"$.consumerDataSet[1].subscriptionDataSet[0]"}]},{"groupName":"g","subscriptionDataSet":'
        '[{"topic":"T","subString":"A","tagsSet":["A"],"codeSet":[65],"subVersion":1}]}]}',
        '{"consumerDataSet":[{"groupName":"h","subscriptionDataSet":[{"$ref":"$.nothing"}]}]}',
        '{"consumerDataSet":[{"groupName":"h","subscriptionDataSet":'
        '{"$ref":"$.consumerDataSet[1].subscriptionDataSet"}},{"groupName":"g","subscriptionDataSet":'
        '[{"topic":"T","subString":"A","tagsSet":["A"],"codeSet":[65],"subVersion":1}]}]}',
    },
}


def frame_outcome(reading: golden.FrameReading) -> Any:
    try:
        [frame] = FrameReceiver().feed(len(reading.data).to_bytes(4, "big") + reading.data)
        command = decode_command(frame)
        return {
            "code": command.code,
            "flag": command.flag,
            "language": command.language,
            "opaque": command.opaque,
            "version": command.version,
            "serialize": "JSON" if command.header_type is HeaderType.JSON else "ROCKETMQ",
            "remark": command.remark,
            "ext": command.fields,
            "body": command.body.hex(),
        }
    except (FrameError, HeaderError):
        return REFUSED


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_frames_are_read_as_rocketmq_reads_them(version: str) -> None:
    tables = OTHER_FRAMES if version == "5.3.3" else OTHER_FRAMES | OTHER_FRAMES_THAN_49
    others = set().union(*tables.values())
    compared = 0
    for reading in golden.frame_readings(version):
        expected: Any = REFUSED
        if reading.read is not None:
            ext = {name: text for name, text in (reading.read["ext"] or {}).items() if text is not None}
            expected = reading.read | {"opaque": reading.read["opaque"] or 0, "ext": ext}
        outcome = frame_outcome(reading)
        if reading.name in others:
            assert outcome != expected, f"{reading.name}: is read as RocketMQ does; take it off the table"
            continue
        compared += 1
        assert outcome == expected, reading.name
    assert compared > 50


def header_outcome(reading: golden.HeaderReading, *, raw: bool) -> tuple[str, Any]:
    """Return the kind of a reading's field, and what is read into it, beside valid values in every other field."""
    header = CLASSES[reading.class_name]
    fields = {one.encode_name: one for one in msgspec.structs.fields(header)}
    kind = {
        name: "int" if "int" in str(one.type) else "bool" if "bool" in str(one.type) else ""
        for name, one in fields.items()
    }
    texts = {name: {"int": "0", "bool": "false", "": "x"}[kind[name]] for name, one in fields.items() if one.required}
    texts.pop(reading.field, None)
    texts |= reading.ext or {}
    command = Command(1, msgspec.Raw(msgspec.json.encode(texts)) if raw else texts)
    try:
        return kind[reading.field], getattr(command.header(header), fields[reading.field].name)
    except HeaderError:
        return kind[reading.field], REFUSED


@pytest.mark.parametrize("version", golden.VERSIONS)
@pytest.mark.parametrize("raw", [True, False], ids=["JSON", "texts"])
def test_header_fields_are_read_as_rocketmq_reads_them(version: str, raw: bool) -> None:
    compared = 0
    for reading in golden.header_readings(version):
        if reading.class_name not in CLASSES:
            continue
        text = (reading.ext or {}).get(reading.field)
        kind, outcome = header_outcome(reading, raw=raw)
        if {(kind, text), (reading.field, None), (reading.field, text)} & OTHER_HEADERS.keys():
            continue
        # RocketMQ refuses a required field without a value after it has read the class
        is_required = {one.encode_name: one.required for one in msgspec.structs.fields(CLASSES[reading.class_name])}
        without = REFUSED if is_required[reading.field] else None
        expected = REFUSED if reading.refused else without if reading.value is None else reading.value
        if (reading.class_name, text, outcome) == ("SendMessageRequestHeaderV2", None, None):
            expected = None  # 4.9.7 reads `m` into a primitive
        assert (outcome, type(outcome)) == (expected, type(expected)), (reading.class_name, reading.field, reading.ext)
        compared += 1
    assert compared > 85


def plain(value: Any) -> Any:
    """Return fastjson's value as standard JSON, without nulls of maps."""
    if isinstance(value, dict):
        return {
            name if isinstance(name, str) else json.dumps(dict(name), separators=(",", ":")): plain(one)
            for name, one in value.items()
            if one is not None
        }
    return value


def body_outcome(reading: golden.BodyReading) -> Any:
    body = BODIES.get(reading.class_name)
    try:
        if body is None:
            return plain(fastjson.loads(reading.text.encode()))
        return msgspec.to_builtins(bodies.decode_body(reading.text.encode(), body))
    except BodyError:
        return REFUSED


def agrees(read: Any, expected: Any) -> bool:
    """Return whether every member that RocketMQ reads is read; lists are compared as sets."""
    if isinstance(expected, dict):
        return isinstance(read, dict) and all(
            agrees(read.get(name, {} if one == {} else None), one)
            for name, one in expected.items()
            if (name, one) != ("subVersion", MADE_AT)
        )
    if isinstance(expected, list):
        return (
            isinstance(read, list)
            and all(any(agrees(one, other) for one in read) for other in expected)
            and all(any(agrees(one, other) for other in expected) for one in read)
        )
    return bool(read == expected)


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_bodies_are_read_as_rocketmq_reads_them(version: str) -> None:
    others = set().union(*OTHER_BODIES.values())
    compared = 0
    for reading in golden.body_readings(version):
        outcome = body_outcome(reading)
        if reading.refused or reading.read is None:
            is_same = outcome == REFUSED
        else:
            is_same = agrees(outcome, reading.read)
        assert is_same == (reading.text not in others), (reading.text, outcome, reading.read)
        compared += is_same
    assert compared > 30

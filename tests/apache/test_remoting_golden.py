"""The golden files of the remoting protocol: RocketMQ's classes write them again, and their samples are consistent."""

from __future__ import annotations

import base64
import hmac
import json
import re
import zlib

import pytest

from tests.apache.remoting_golden import PROGRAMS, generated
from tests.support.golden_remoting import (
    VERSIONS,
    FrameSample,
    body_readings,
    body_samples,
    codes,
    find,
    frame_readings,
    frame_samples,
    header_readings,
    header_samples,
    read,
    text_samples,
)
from tests.support.maven import JarsNotFetchedError
from tests.support.trials import LEVEL


@pytest.mark.apache
@pytest.mark.parametrize("version", PROGRAMS if LEVEL != "sample" else VERSIONS[-1:])
def test_rocketmq_writes_the_golden_files_again(version: str) -> None:
    try:
        texts = generated(version)
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    kept = {path.name.partition(".")[0] for path in find(version, "odd_inputs").parent.iterdir()}
    assert set(texts) == kept
    for name, text in texts.items():
        for number, (one, other) in enumerate(zip(text.split("\n"), read(version, name).split("\n"), strict=True), 1):
            # another zlib may compress to other bytes; the decompressed ones are in the line, too
            one, other = (re.sub('"deflated":"[0-9a-f]*"', "", text) for text in (one, other))
            assert one == other, f"{name}, line {number}: run python -m tests.apache.remoting_golden"


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_hold_what_their_samples_name(version: str) -> None:
    for sample in header_samples(version):
        assert [one.name for one in sample.fields if one.is_required and one.name not in sample.values] == (
            ["plainAccessConfigs"] if sample.class_name == "GetBrokerClusterAclConfigResponseHeader" else []
        )
        for frame in sample.frames:
            _check(frame)
    for frame in frame_samples(version):
        _check(frame)


def _check(frame: FrameSample) -> None:
    length, word = (int.from_bytes(frame.frame[at : at + 4], "big") for at in (0, 4))
    assert length == len(frame.frame) - 4
    head, body = frame.frame[8 : 8 + (word & 0xFFFFFF)], frame.frame[8 + (word & 0xFFFFFF) :]
    assert (body, word >> 24) == (frame.body, ("JSON", "ROCKETMQ").index(frame.serialize))
    if frame.serialize == "JSON":
        found = json.loads(head)
        assert (found["code"], found["flag"], found["opaque"]) == (frame.code, frame.flag, frame.opaque)
        assert (found["version"], found["language"], found.get("remark")) == (
            *(frame.version, frame.language, frame.remark),
        )
        assert (found.get("extFields") or {}) == {k: v for k, v in (frame.ext or {}).items() if v is not None}
    else:
        assert int.from_bytes(head[:2], "big") == frame.code & 0xFFFF
        assert len(head) == 21 + len((frame.remark or "").encode()) + sum(
            6 + len(name.encode()) + len(value.encode())
            for name, value in (frame.ext or {}).items()
            if value is not None
        )


def test_both_versions_are_covered() -> None:
    assert [len(header_samples(version)) for version in VERSIONS] == [262, 160]
    assert {len(sample.frames) for version in VERSIONS for sample in header_samples(version)} == {6}
    assert all(len(frame_samples(version)) > 100 and len(frame_readings(version)) > 70 for version in VERSIONS)
    assert all(len(header_readings(version)) > 100 for version in VERSIONS)
    new, old = (codes(version) for version in VERSIONS)
    assert (new["RequestCode"]["POP_MESSAGE"], old["RequestCode"]["SEND_MESSAGE_V2"]) == (200050, 310)
    assert (new["MQVersion"]["CURRENT_VERSION"], old["MQVersion"]["CURRENT_VERSION"]) == (479, 407)
    assert new["LanguageCode"]["PYTHON"] == old["LanguageCode"]["PYTHON"] == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_bodies_hold_what_their_samples_name(version: str) -> None:
    quirks = 0
    for sample in body_samples(version):
        if sample.inflated is not None:
            assert zlib.decompress(sample.data) == sample.inflated
            continue
        if sample.class_name != "fastjson":
            assert (sample.reads_own, sample.reads_standard) == ("same", "same"), sample.class_name
        try:
            found = json.loads(sample.data)
        except ValueError:
            quirks += 1
            continue
        if b'"$ref"' in sample.data or sample.name == "null member of a map":
            quirks += 1
        else:
            assert found == sample.values, sample.class_name
    assert quirks > 15
    assert any(b'"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"' in one.data for one in body_samples(version))
    assert len(body_samples(version)) > 120
    assert len(body_readings(version)) > 60


@pytest.mark.parametrize("version", VERSIONS)
def test_texts_agree_with_independent_formulas(version: str) -> None:
    for sample in text_samples(version, "signature"):
        content = "".join(sample.given["ext"][name] for name in sorted(sample.given["ext"]) if name != "Signature")
        data = content.encode() + bytes.fromhex(sample.given["body"] or "")
        digest = hmac.digest(sample.given["secret"].encode(), data, "sha1")
        assert sample.result == {"content": data.hex(), "signature": base64.b64encode(digest).decode()}
    for sample in text_samples(version, "body_crc"):
        assert sample.result == zlib.crc32(bytes.fromhex(sample.given)) & 0x7FFFFFFF
    for sample in text_samples(version, "tag_code"):
        code = 0
        units = (sample.given or "").encode("utf-16-be")
        for at in range(0, len(units), 2):
            code = code * 31 + int.from_bytes(units[at : at + 2], "big")
        assert sample.result == ((code & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    for kind, least in (("batch", 4), ("properties", 7), ("subscription", 20), ("offset_id", 20), ("topic_config", 2)):
        assert len(text_samples(version, kind)) >= least

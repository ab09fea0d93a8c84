"""The golden files of the remoting protocol: RocketMQ's classes write them again, and their samples are consistent."""

from __future__ import annotations

import json

import pytest

from tests.apache.remoting_golden import generated
from tests.support.golden_remoting import (
    VERSIONS,
    FrameSample,
    codes,
    find,
    frame_readings,
    frame_samples,
    header_readings,
    header_samples,
    read,
)
from tests.support.maven import JarsNotFetchedError


@pytest.mark.apache
@pytest.mark.parametrize("version", VERSIONS)
def test_rocketmq_writes_the_golden_files_again(version: str) -> None:
    try:
        texts = generated(version)
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    kept = {path.name.partition(".")[0] for path in find(version, "codes").parent.iterdir()}
    assert set(texts) == kept
    for name, text in texts.items():
        for number, (one, other) in enumerate(zip(text.split("\n"), read(version, name).split("\n"), strict=True), 1):
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

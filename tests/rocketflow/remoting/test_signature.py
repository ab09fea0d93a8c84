"""Signatures: those of RocketMQ's own classes, and what a change of a signed request does to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting.command import Command
from rocketflow.remoting.signature import SIGNATURE, Credentials, is_signed, sign, signature, signed_content
from tests.support.golden_remoting import VERSIONS, text_samples

ACCOUNT = Credentials("rocketmq2", "12345678")
VERSION = 479


@pytest.mark.parametrize("version", VERSIONS)
def test_signatures_are_those_of_rocketmqs_classes(version: str) -> None:
    samples = text_samples(version, "signature")
    assert len(samples) >= 5
    for sample in samples:
        content = signed_content(sample.given["ext"], bytes.fromhex(sample.given["body"] or ""), VERSION)
        assert content.hex() == sample.result["content"]
        assert signature(content, sample.given["secret"]) == sample.result["signature"]


def test_a_known_request_has_its_known_signature() -> None:
    command = Command(10, {"topic": "TopicA"}, body=b"xy")
    sign(command, ACCOUNT)
    assert command.fields == {"AccessKey": "rocketmq2", "topic": "TopicA", SIGNATURE: "rNtCTjyRtHWZB+nYUWae4JrsklU="}


FIELDS = st.dictionaries(st.text(min_size=1), st.text(), max_size=6)


@given(FIELDS, st.binary(max_size=50), st.text(min_size=1), st.text(min_size=1))
def test_a_signature_is_valid_for_its_request_and_secret_only(
    fields: dict[str, str], body: bytes, secret: str, other: str
) -> None:
    command = Command(10, dict(fields), body=body)
    sign(command, Credentials("stranger", secret))
    assert is_signed(command, secret)
    if other.strip("\0") != secret.strip("\0"):  # HMAC fills a secret with zeros
        assert not is_signed(command, other)
    assert not is_signed(Command(10, command.fields, body=body + b"x"), secret)
    assert not is_signed(Command(10, {**command.fields, "added": "x"}, body=body), secret)
    for given_signature in (command.fields[SIGNATURE][:-1], "", "é"):
        assert not is_signed(Command(10, {**command.fields, SIGNATURE: given_signature}, body=body), secret)


def test_fields_that_clients_add_after_signing_are_not_signed() -> None:
    command = Command(12, {"topic": "t", "key": "k"}, version=399)
    sign(command, ACCOUNT)
    command.fields.update({"_UNIQUE_KEY_QUERY": "true", "__ZONE_NAME": "z", "__ZONE_MODE": "true"})
    assert is_signed(command, ACCOUNT.secret_key)
    newer = Command(12, {**command.fields}, version=401)
    assert not is_signed(newer, ACCOUNT.secret_key)
    sign(newer, ACCOUNT)
    assert is_signed(newer, ACCOUNT.secret_key)


def test_names_are_sorted_by_utf_16_units() -> None:
    assert signed_content({"\U0001f600": "1", "\uff00": "2", "a": "0"}, b"", VERSION) == b"012"


def test_a_secret_is_not_shown() -> None:
    assert ACCOUNT.secret_key not in repr(ACCOUNT)

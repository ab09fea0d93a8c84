"""Signatures: those of RocketMQ's own classes, and what a change of a signed request does to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting.command import Command
from rocketflow.remoting.signature import (
    MARK,
    SIGNATURE,
    Credentials,
    RequestMark,
    is_signed,
    mark_of,
    sign,
    signature,
    signed_content,
    verified_content,
)
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


# --- marks

MARKED = RequestMark(1_700_000_000_000, "c" * 22, 7, "")


def marked(code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    """Return a request that RocketFlow's client signed."""
    command = Command(code, dict(fields), body=body, version=VERSION)
    sign(command, ACCOUNT, MARKED)
    return command


def mark_read(command: Command) -> RequestMark | None:
    """Return the mark of a request with the signature of ACCOUNT."""
    content = verified_content(command, ACCOUNT.secret_key)
    assert content is not None
    return mark_of(command, content)


@given(FIELDS, st.binary(max_size=50), st.integers(0, 400))
def test_a_mark_is_read_from_its_request(fields: dict[str, str], body: bytes, code: int) -> None:
    command = marked(code, fields, body)
    found = mark_read(command)
    assert found is not None
    assert found._replace(digest="") == MARKED
    sign(command, ACCOUNT, MARKED)
    assert mark_read(command) == found, "a request that is sent again is signed again"
    sign(command, ACCOUNT)
    assert mark_read(command) is None, "RocketMQ's clients add no mark"


VALUES = {"topic": "orders", "group": "readers", "b": "rocketmq2", "Zone": ""}


@pytest.mark.parametrize(
    ("code", "changed", "body"),
    [
        (11, {}, b"body"),
        (10, {"topic": "ordersreaders", "group": ""}, b"body"),
        (10, {"topic": "", "group": "", "b": "", "z": "rocketmq2readersorders"}, b"body"),
        (10, {"topic": "order"}, b"sbody"),
        (10, {"topic": "ordersbody"}, b""),
        (10, {MARK: ""}, b"body"),
        (10, {MARK: "", "B": "{mark}"}, b"body"),
        (10, {MARK: "", "A": "rocketmq2{mark}", "b": ""}, b"body"),
        (10, {MARK: "{begin}", "AccessKeyN": "{end}"}, b"body"),
    ],
)
def test_values_that_are_moved_to_other_fields_are_noticed(code: int, changed: dict[str, str], body: bytes) -> None:
    command = marked(10, VALUES, b"body")
    mark = command.fields[MARK]
    texts = {"mark": mark, "begin": mark[:20], "end": mark[20:]}
    fields = {**command.fields, **{name: value.format(**texts) for name, value in changed.items()}}
    other = Command(code, {name: value for name, value in fields.items() if value}, body=body, version=VERSION)
    if is_signed(other, ACCOUNT.secret_key):
        with pytest.raises(ValueError, match="fields are not those"):
            mark_read(other)
    else:
        assert changed

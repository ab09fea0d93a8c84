"""Accounts of RocketMQ 4: what they allow, and which files are refused."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.access.plain_files import MAX_BYTES, PlainFiles, load_document
from rocketflow.access.plain_rules import PlainRules, PlainRulesError, parse_rules
from rocketflow.errors import UsageError
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.signature import Credentials, sign
from tests.support.processed_codes import ROWS
from tests.support.signed import ADMIN, PLAIN_RULES, READER, WRITER

CODE = RequestCode
HERE = ipaddress.ip_address("10.1.2.3")


def rules(text: str = PLAIN_RULES) -> PlainRules:
    """Return the rules of a YAML text."""
    return parse_rules(load_document(text.encode()))


def refusal(found: PlainRules, code: int, by: Credentials | None, **fields: str) -> str | None:
    """Return why a request by an account is refused."""
    command = Command(code, fields)
    if by is not None:
        sign(command, by)
    return found.refusal(ROWS[code], command, HERE)


STRANGER = Credentials("stranger", "x")

ALLOWED = [
    (CODE.SEND_MESSAGE, WRITER, {"topic": "orders"}),
    (CODE.SEND_MESSAGE_V2, WRITER, {"b": "both"}),
    (CODE.SEND_MESSAGE, WRITER, {"topic": "%RETRY%any"}),
    (CODE.SEND_MESSAGE, READER, {"topic": "RMQ_SYS_TRACE_TOPIC"}),
    (CODE.PULL_MESSAGE, READER, {"topic": "orders", "consumerGroup": "readers"}),
    (CODE.PULL_MESSAGE, WRITER, {"topic": "both", "consumerGroup": "any"}),
    (CODE.QUERY_MESSAGE, READER, {"topic": "orders"}),
    (CODE.GET_BROKER_RUNTIME_INFO, READER, {}),
    (CODE.UPDATE_AND_CREATE_TOPIC, ADMIN, {"topic": "new"}),
    (CODE.ROCKETFLOW_REQUEUE, ADMIN, {}),
    (CODE.SEND_MESSAGE, ADMIN, {"topic": "anything"}),
    (CODE.REGISTER_BROKER, ADMIN, {}),
]
DENIED = [
    (CODE.SEND_MESSAGE, None, {"topic": "orders"}, "No accessKey is configured"),
    (CODE.SEND_MESSAGE, STRANGER, {"topic": "orders"}, "No acl config for stranger"),
    (CODE.SEND_MESSAGE, Credentials("writer-1", "other"), {"topic": "orders"}, "Check signature failed"),
    (CODE.SEND_MESSAGE, READER, {"topic": "orders"}, "No default permission for Topic orders"),
    (
        CODE.SEND_MESSAGE,
        READER,
        {"topic": "rmq_sys_TRACE_DATA_r"},
        "No default permission for Topic rmq_sys_TRACE_DATA_r",
    ),
    (CODE.SEND_BATCH_MESSAGE, READER, {"b": "orders"}, "No default permission for Topic orders"),
    (CODE.SEND_MESSAGE, WRITER, {"topic": "other"}, "No default permission for Topic other"),
    (CODE.PULL_MESSAGE, WRITER, {"topic": "orders", "consumerGroup": "any"}, "Topic orders"),
    (CODE.LITE_PULL_MESSAGE, READER, {"topic": "orders", "consumerGroup": "others"}, "Group others"),
    (CODE.PULL_MESSAGE, READER, {"topic": "%RETRY%others", "consumerGroup": "readers"}, "Group others"),
    (CODE.PULL_MESSAGE, READER, {"topic": "closed", "consumerGroup": "readers"}, "Topic closed"),
    (CODE.VIEW_MESSAGE_BY_ID, READER, {"offset": "0", "topic": "closed"}, "Topic closed"),
    (CODE.UPDATE_AND_CREATE_TOPIC, WRITER, {"topic": "orders"}, "Need admin permission for request code=17"),
    (CODE.ROCKETFLOW_REQUEUE, WRITER, {}, "Need admin permission"),
    (CODE.REGISTER_BROKER, WRITER, {}, "Need admin permission"),
    (CODE.AUTH_CREATE_USER, WRITER, {}, "Need admin permission"),
]


@pytest.mark.parametrize(("code", "by", "fields"), ALLOWED)
def test_accounts_may_do_what_the_file_says(code: int, by: Credentials, fields: dict[str, str]) -> None:
    assert refusal(rules(), code, by, **fields) is None


@pytest.mark.parametrize(("code", "by", "fields", "why"), DENIED)
def test_other_requests_are_refused_with_the_reason(
    code: int, by: Credentials | None, fields: dict[str, str], why: str
) -> None:
    found = refusal(rules(), code, by, **fields)
    assert found is not None
    assert why in found
    assert by is None or by.secret_key not in found


def test_white_addresses_need_no_signature() -> None:
    everywhere = rules(PLAIN_RULES.replace("Addresses: []", "Addresses: [10.1.*.*, 192.168.0.1]"))
    assert refusal(everywhere, CODE.UPDATE_AND_CREATE_TOPIC, None, topic="t") is None
    account = rules(PLAIN_RULES.replace("whiteRemoteAddress:", "whiteRemoteAddress: 10.1.2.1-5"))
    unsigned = Command(CODE.PULL_MESSAGE, {"AccessKey": READER.access_key})
    assert account.refusal(ROWS[CODE.PULL_MESSAGE], unsigned, HERE) is None
    assert account.refusal(ROWS[CODE.PULL_MESSAGE], unsigned, ipaddress.ip_address("10.1.2.6")) is not None
    assert account.refusal(ROWS[CODE.PULL_MESSAGE], unsigned, None) is not None


def test_an_administrator_with_named_permissions_has_only_these() -> None:
    found = rules(PLAIN_RULES.replace("admin: true", "admin: true\n  topicPerms: [orders=SUB]"))
    assert refusal(found, CODE.UPDATE_AND_CREATE_TOPIC, ADMIN, topic="t") is None
    assert refusal(found, CODE.SEND_MESSAGE, ADMIN, topic="orders") is not None


def test_keys_that_look_like_numbers_are_texts() -> None:
    found = rules("accounts: [{accessKey: 01234567, secretKey: 12345678, topicPerms: [t=PUB]}]")
    assert refusal(found, CODE.SEND_MESSAGE, Credentials("01234567", "12345678"), topic="t") is None


SECRET = "very-secret-text"
BROKEN = [
    ("accounts: [", "this is no YAML"),
    (f"accounts:\n- accessKey: {SECRET}\n\tx", "line 3: this is no YAML"),
    ("[1]", "the file: names and values are expected"),
    ("acounts: []", "unknown name 'acounts'"),
    ("accounts: {}\nx: 1", "unknown name 'x'"),
    ("accounts: text", "accounts: a list is expected"),
    ("accounts: [text]", "account 1: names and values are expected"),
    (f"accounts: [{{accessKey: short, secretKey: {SECRET}}}]", "account 1: accessKey is shorter than 7"),
    ("accounts: [{accessKey: long-enough, secretKey: short}]", "account 1: secretKey is shorter than 7"),
    (f"accounts: [{{accessKey: long-enough, secretKey: {SECRET}, topicPerm: []}}]", "unknown name 'topicPerm'"),
    (f"accounts: [{{accessKey: long-enough, secretKey: {SECRET}, topicPerms: [t=PBU]}}]", "topicPerms: t: 'PBU'"),
    (f"accounts: [{{accessKey: long-enough, secretKey: {SECRET}, topicPerms: [t]}}]", "'t' is not NAME=PERMISSION"),
    (f"accounts: [{{accessKey: long-enough, secretKey: {SECRET}, topicPerms: t=PUB}}]", "a list of texts is expected"),
    (f"accounts: [{{accessKey: long-enough, secretKey: {SECRET}, defaultTopicPerm: ALL}}]", "defaultTopicPerm: 'ALL'"),
    (f"accounts: [{{accessKey: long-enough, secretKey: {SECRET}, admin: maybe}}]", "admin: true or false"),
    (f"accounts: [{{accessKey: long-enough, secretKey: {SECRET}, whiteRemoteAddress: 1.2.3}}]", "whiteRemoteAddress:"),
    (f"accounts: [{{accessKey: long-enough, secretKey: [{SECRET}]}}]", "secretKey: one text is expected"),
    ("globalWhiteRemoteAddresses: [10.1.2]", "globalWhiteRemoteAddresses: '10.1.2'"),
    ("accounts: [&a {accessKey: long-enough, secretKey: x1234567}, *a]", "line 1: aliases"),
    ("[" * 100_000, "line 1: "),
    ("- " * 100_000, "line 1: there are more than 8 levels"),
    ("a: " + "x" * MAX_BYTES, "at most 1,048,576 are allowed"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN, ids=range(len(BROKEN)))
def test_broken_files_are_refused_and_no_secret_is_shown(text: str, why: str) -> None:
    with pytest.raises(PlainRulesError) as caught:
        rules(text)
    assert why in str(caught.value)
    assert SECRET not in str(caught.value)


def test_two_accounts_of_one_name_are_refused() -> None:
    account = "{accessKey: long-enough, secretKey: x1234567}"
    with pytest.raises(PlainRulesError, match="occurs twice"):
        rules(f"accounts: [{account}, {account}]")


WORDS = [
    "accounts",
    "accessKey",
    "secretKey",
    "topicPerms",
    "admin",
    "true",
    "PUB|SUB",
    "t=PUB",
    "12345678",
    "&a",
    "*a",
]


@given(
    st.lists(st.sampled_from([*WORDS, ":", "- ", "[", "]", "{", "}", "\n", "  ", ",", "\t", "!!python/name:os.system"]))
    .map("".join)
    .map(str.encode)
    | st.binary(max_size=100)
)
def test_any_bytes_give_rules_or_a_typed_error(data: bytes) -> None:
    try:
        found = parse_rules(load_document(data))
    except PlainRulesError:
        return
    assert all(isinstance(one.access_key, str) for one in found.accounts.values())


def test_files_are_read_again_when_they_change_and_broken_ones_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UsageError, match=r"plain_acl\.yml"):
        PlainFiles(tmp_path)
    (tmp_path / "acl" / "sub").mkdir(parents=True)
    path = tmp_path / "plain_acl.yml"
    path.write_text(PLAIN_RULES)
    (tmp_path / "acl" / "tools.yml").write_text("accessKey: x\nsecretKey: y\n")
    files = PlainFiles(tmp_path)

    def is_allowed(by: Credentials) -> bool:
        command = Command(CODE.SEND_MESSAGE, {"topic": "orders"})
        sign(command, by)
        return files.refusal(ROWS[CODE.SEND_MESSAGE], command, HERE) is None

    assert is_allowed(WRITER)
    more = Credentials("more-than-before", SECRET)
    other = tmp_path / "acl" / "sub" / "more.yaml"
    other.write_text(f"accounts: [{{accessKey: {more.access_key}, secretKey: {SECRET}, topicPerms: [orders=PUB]}}]")
    files.reload()
    assert is_allowed(more)
    for broken in ("accounts: [", PLAIN_RULES, "[" * 1_000):
        other.write_text(broken)
        os.utime(other, ns=(1, 1))
        files.reload()
        assert is_allowed(more)
        assert "stay in effect" in caplog.text
        caplog.clear()
        other.write_text(f"{broken} # again")
    other.unlink()
    files.reload()
    assert not is_allowed(more)
    assert is_allowed(WRITER)
    path.unlink()
    files.reload()
    assert is_allowed(WRITER), "the loss of all files is no permission to nobody"
    assert SECRET not in caplog.text

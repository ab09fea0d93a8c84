"""Rows N11 and N12: requests without permission, from every code, and signatures that are not their request's."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from rocketflow.access.permissions import Audience
from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.signing_hook import signing_hooks
from rocketflow.broker.groups.member_calls import offset_of_message_id
from rocketflow.client.store_client import NotAllowedError, RequestRefusedError, StoreClient
from rocketflow.process.server_settings import ADMIN_KEYS
from rocketflow.remoting.bodies import (
    AclInfo,
    ConsumerData,
    HeartbeatData,
    PolicyEntryInfo,
    PolicyInfo,
    SubscriptionData,
    UserInfo,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers import admin, auth
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.offset import GetMaxOffsetRequestHeader
from rocketflow.remoting.headers.pull import ViewMessageRequestHeader
from rocketflow.remoting.headers.send import ConsumerSendMsgBackRequestHeader
from rocketflow.remoting.headers.transaction import EndTransactionRequestHeader
from rocketflow.remoting.signature import JOB_ACCESS_KEY, MARK, SIGNATURE, Credentials, sign
from rocketflow.remoting.store_bodies import EnvelopeBody, LastCommitBody
from rocketflow_store.fsck.dump_file import dump_file
from rocketflow_store.spi.places import serving_broker
from tests.reliability.network.access import (
    OPEN,
    QUIET,
    STRANGER,
    all_codes,
    fingerprint,
    other_address,
    usual_fields,
)
from tests.reliability.network.wire import ANSWER_SECONDS, CODE
from tests.support.processed_codes import ROWS
from tests.support.request_headers import pull_header, send_header, topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running, running_broker, store_of
from tests.support.signed import ADMIN, PLAIN_RULES, READER, WRITER, plain_broker, signed, users_broker
from tests.support.trials import LEVEL

pytestmark = pytest.mark.slow

REFUSED = ResponseCode.NO_PERMISSION
UNKNOWN = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def with_channel(address: str, check: Callable[[Channel], object]) -> None:
    """Run a check with a connection to an address."""

    async def main() -> None:
        peers = Peers()
        await check(await peers.channel(address))  # type: ignore[misc]
        await peers.close()

    run(main())


async def answer(
    channel: Channel, code: int, header: Header | None = None, body: bytes = b"", by: Credentials | None = None
) -> Command:
    """Return the answer to a request, signed by an account if there is one."""
    return await channel.ask(signed(code, header, body, by), timeout_s=ANSWER_SECONDS)


async def swept(
    channel: Channel, fields: Mapping[int, Mapping[str, str]], by: Credentials | None = None
) -> dict[int, int]:
    """Return the answer's code for each request code of the sweep."""

    async def one(code: int) -> int:
        command = Command(code, dict(fields.get(code, {"topic": "orders"})), body=b"")
        if by is not None:
            sign(command, by)
        return (await channel.ask(command, timeout_s=ANSWER_SECONDS)).code

    found = {}
    codes = all_codes()
    for begin in range(0, len(codes), 200):
        part = codes[begin : begin + 200]
        found.update(zip(part, await asyncio.gather(*map(one, part))))
    return found


REACHED = ("bindAddress=0.0.0.0",)
"""The setting of a broker that this host's other address reaches; it needs accounts."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a broker with accounts of RocketMQ 4 and the topic orders."""
    with plain_broker(tmp_path_factory.mktemp("plain"), *REACHED, *QUIET) as broker:
        with_channel(broker.address, _makes_orders)
        yield broker
        assert broker.stop() == 0
        no_traceback(broker)
        log = broker.log.read_text()
        assert "requests without permission" in log
        assert not [one for one in (ADMIN, READER, WRITER) if one.secret_key in log]


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a broker with users and policies of RocketMQ 5."""
    with users_broker(tmp_path_factory.mktemp("users"), *REACHED, *QUIET) as broker:
        yield broker
        assert broker.stop() == 0
        no_traceback(broker)


async def _makes_orders(channel: Channel) -> None:
    made = await answer(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("orders"), by=ADMIN)
    assert made.code == ResponseCode.SUCCESS, made.remark


# --- N11: every request code


@pytest.mark.parametrize("kind", ["accounts", "users"])
def test_no_code_passes_without_credentials_and_nothing_changes(
    kind: str, request: pytest.FixtureRequest, tally: Callable[..., Tally]
) -> None:
    counts = tally("N11", kind)
    broker: RunningServer = request.getfixturevalue("plain" if kind == "accounts" else "users")

    async def check(channel: Channel) -> None:
        await answer(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("orders"), by=ADMIN)
        await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"x", ADMIN)
        await asyncio.sleep(0.5)
        before = fingerprint(broker)
        addresses = [f"{other_address()}:{broker.port}", *([] if LEVEL == "sample" else [broker.address])]
        for address in addresses:
            peers = Peers()
            for fields in ({}, usual_fields())[LEVEL == "sample" :]:
                for by in (None, STRANGER):
                    found = await swept(await peers.channel(address), fields, by)
                    assert {code for code, one in found.items() if one == REFUSED} <= ROWS.keys()
                    assert set(found.values()) == {REFUSED, UNKNOWN}, Counter(found.values())
                    for code, one in found.items():
                        counts.trial(None, f"{code}", hit=one == REFUSED)
            await peers.close()
        assert fingerprint(broker) == before
        passed = await swept(channel, {}, ADMIN)
        refused = {code for code, one in passed.items() if one == REFUSED}
        of_users = {code for code, row in ROWS.items() if row.of_users}
        assert refused <= {CODE.UPDATE_BROKER_CONFIG, CODE.RECALL_MESSAGE, *of_users}, refused
        assert CODE.UPDATE_BROKER_CONFIG in refused, "settings are not changed over the network"
        assert {code for code, one in passed.items() if one != UNKNOWN} >= {*range(10, 13), *of_users, 30_001}
        await _makes_orders(channel)  # the sweep has deleted it

    with_channel(broker.address, check)
    assert "has no row" not in broker.log.read_text()
    no_traceback(broker)


def test_without_accounts_operators_and_jobs_have_to_be_on_the_brokers_host(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("N11", "no accounts")
    guarded = {code for code, row in ROWS.items() if row.audience in (Audience.ADMIN, Audience.JOB)}
    with running_broker(tmp_path, *OPEN, *QUIET) as broker:

        async def check(channel: Channel) -> None:
            made = await answer(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("orders"))
            assert made.code == ResponseCode.SUCCESS, "the loopback address is the host's own"
            await asyncio.sleep(0.5)
            before = fingerprint(broker)
            peers = Peers()
            far = await peers.channel(f"{other_address()}:{broker.port}")
            for fields in ({}, {code: one for code, one in usual_fields().items() if code in guarded}):
                found = await swept(far, fields)
                refused = {code for code, one in found.items() if one == REFUSED}
                assert refused <= guarded
                assert refused >= {code for code in guarded if found[code] != UNKNOWN}
                assert len(refused) > 40
                for code in found:
                    counts.trial(None, f"{code}", hit=code in refused)
            assert fingerprint(broker) == before
            sent = await answer(far, CODE.SEND_MESSAGE, send_header("orders"), b"x")
            assert sent.code == ResponseCode.SUCCESS, "clients need no account"
            await peers.close()

        with_channel(broker.address, check)
        no_traceback(broker)


@pytest.mark.parametrize("accounts", [False, True])
def test_a_name_server_is_changed_from_its_host_or_by_administrators(accounts: bool, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(PLAIN_RULES)
    kv = tmp_path / "kv.json"
    access = ("aclEnable=true", f"rocketmqHome={tmp_path}") if accounts else ("rocketflow.allowInsecure=true",)
    options = ("bindAddress=0.0.0.0", f"kvConfigPath={kv}", *access)
    changes = [code for code, row in ROWS.items() if row.audience is Audience.ADMIN]
    with running("namesrv", tmp_path, *(part for one in options for part in ("--set", one))) as names:

        async def check(channel: Channel) -> None:
            value = {"namespace": "n", "key": "k", "value": "v"}
            by = ADMIN if accounts else None
            put = Command(CODE.PUT_KV_CONFIG, value)
            if by is not None:
                sign(put, by)
            assert (await channel.ask(put, timeout_s=ANSWER_SECONDS)).code == ResponseCode.SUCCESS
            before = kv.read_bytes()
            peers = Peers()
            far = await peers.channel(f"{other_address()}:{names.port}")
            found = await swept(far, {**usual_fields(), CODE.PUT_KV_CONFIG: {**value, "value": "other"}})
            if accounts:
                assert set(found.values()) == {REFUSED, UNKNOWN}
            assert {found[code] for code in changes} == {REFUSED, UNKNOWN}
            assert found[CODE.PUT_KV_CONFIG] == found[CODE.DELETE_KV_CONFIG] == REFUSED
            assert kv.read_bytes() == before
            route = signed(CODE.GET_BROKER_CLUSTER_INFO, by=READER if accounts else None)
            assert (await far.ask(route, timeout_s=ANSWER_SECONDS)).code == ResponseCode.SUCCESS
            await peers.close()

        with_channel(names.address, check)
        no_traceback(names)


# --- N12: signatures


def _changed_field(command: Command) -> None:
    command.fields["topic"] = "both"


def _changed_body(command: Command) -> None:
    command.body = b"another"


def _cut(command: Command) -> None:
    command.fields[SIGNATURE] = command.fields[SIGNATURE][:-4]


def _empty(command: Command) -> None:
    command.fields[SIGNATURE] = ""


def _missing(command: Command) -> None:
    del command.fields[SIGNATURE]


def _of_another_request(command: Command) -> None:
    command.fields[SIGNATURE] = signed(CODE.SEND_MESSAGE, send_header("orders"), b"x", WRITER).fields[SIGNATURE]


def _other_case(command: Command) -> None:
    command.fields[SIGNATURE] = command.fields[SIGNATURE].swapcase()


def _other_name(command: Command) -> None:
    command.fields["AccessKey"] = ADMIN.access_key


def _unknown_name(command: Command) -> None:
    command.fields["AccessKey"] = "x" * 10_000


def _job_name(command: Command) -> None:
    command.fields["AccessKey"] = JOB_ACCESS_KEY


def _not_base64(command: Command) -> None:
    command.fields[SIGNATURE] = "\N{SNOWMAN}" * 28


def _old_secret(command: Command) -> None:
    sign(command, Credentials(WRITER.access_key, "secret-of-the-write"))


TAMPERED = [
    *(_changed_field, _changed_body, _cut, _empty, _missing, _of_another_request, _other_case, _other_name),
    *(_unknown_name, _job_name, _not_base64, _old_secret),
]


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda one: one.__name__)
def test_a_request_whose_signature_is_not_its_own_is_refused(
    tamper: Callable[[Command], None], plain: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N12", "")

    async def check(channel: Channel) -> None:
        good = await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"first", WRITER)
        assert good.code == ResponseCode.SUCCESS, good.remark
        before = int(good.fields["queueOffset"])
        for version in (399, 407, 479):
            command = signed(CODE.SEND_MESSAGE, send_header("orders"), b"second", WRITER, version)
            tamper(command)
            found = await channel.ask(command, timeout_s=ANSWER_SECONDS)
            assert found.code == REFUSED, (found.code, found.remark)
            assert not [one for one in (ADMIN, READER, WRITER) if one.secret_key in (found.remark or "")]
            counts.trial(None, f"{tamper.__name__} {version}")
        good = await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"third", WRITER)
        assert int(good.fields["queueOffset"]) == before + 1

    with_channel(plain.address, check)


def test_a_captured_request_of_rocketflows_clients_counts_once(
    plain: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N12", "captured")

    async def check(channel: Channel) -> None:
        peers = Peers(hooks=signing_hooks(WRITER))
        client = await peers.channel(plain.address)
        sent = signed(CODE.SEND_MESSAGE, send_header("orders"), b"first")
        good = await client.ask(sent, timeout_s=ANSWER_SECONDS)
        assert good.code == ResponseCode.SUCCESS, good.remark
        before = int(good.fields["queueOffset"])
        moved = {**sent.fields, "B": sent.fields[MARK]}
        del moved[MARK]
        for name, code, fields in (
            ("again", CODE.SEND_MESSAGE, sent.fields),
            ("with another code", CODE.SEND_REPLY_MESSAGE, sent.fields),
            ("without its mark", CODE.SEND_MESSAGE, moved),
        ):
            found = await channel.ask(Command(code, dict(fields), body=b"first"), timeout_s=ANSWER_SECONDS)
            assert found.code == REFUSED, (name, found.code, found.remark)
            counts.trial(None, name)
        good = await client.ask(signed(CODE.SEND_MESSAGE, send_header("orders"), b"next"), timeout_s=ANSWER_SECONDS)
        assert int(good.fields["queueOffset"]) == before + 1
        await peers.close()

    with_channel(plain.address, check)


def test_accounts_do_what_their_permissions_say(plain: RunningServer) -> None:
    async def check(channel: Channel) -> None:
        body = encode_body(
            HeartbeatData(
                client_id="c",
                consumer_data_set=[
                    ConsumerData(group_name="readers", subscription_data_set=[SubscriptionData(topic="orders")])
                ],
            )
        )
        other = encode_body(HeartbeatData(client_id="c", consumer_data_set=[ConsumerData(group_name="others")]))
        pull = pull_header("orders", consumer_group="readers")
        ok = ResponseCode.SUCCESS
        for code, header, data, by, expected in (
            (CODE.SEND_MESSAGE, send_header("orders"), b"x", WRITER, ok),
            (CODE.SEND_MESSAGE, send_header("orders"), b"x", READER, REFUSED),
            (CODE.SEND_MESSAGE, send_header("unnamed"), b"x", WRITER, REFUSED),
            (CODE.HEART_BEAT, None, body, READER, ok),
            (CODE.HEART_BEAT, None, other, READER, REFUSED),
            (CODE.PULL_MESSAGE, pull, b"", READER, ok),
            (CODE.PULL_MESSAGE, pull_header("orders"), b"", READER, REFUSED),
            (CODE.PULL_MESSAGE, pull, b"", WRITER, REFUSED),
            (CODE.UPDATE_AND_CREATE_TOPIC, topic_header("more"), b"", WRITER, REFUSED),
            (CODE.UPDATE_AND_CREATE_TOPIC, topic_header("more"), b"", ADMIN, ok),
            (CODE.DELETE_TOPIC_IN_BROKER, admin.DeleteTopicRequestHeader(topic="more"), b"", ADMIN, ok),
            (CODE.UPDATE_BROKER_CONFIG, None, b"brokerName=x", ADMIN, REFUSED),
        ):
            found = await answer(channel, code, header, data, by)
            assert found.code == expected, (code, by, found.code, found.remark)

    with_channel(plain.address, check)


def test_listed_settings_are_changed_by_administrators_alone(tmp_path: Path) -> None:
    with plain_broker(tmp_path, f"{ADMIN_KEYS}=brokerPermission", *REACHED) as broker:

        async def check(channel: Channel) -> None:
            await _makes_orders(channel)
            peers = Peers()
            for one in (channel, await peers.channel(f"{other_address()}:{broker.port}")):
                for body, by, expected in (
                    (b"brokerPermission=4", None, REFUSED),
                    (b"brokerPermission=4", STRANGER, REFUSED),
                    (b"brokerPermission=4", READER, REFUSED),
                    (b"brokerPermission=4", WRITER, REFUSED),
                    (b"brokerName=x", ADMIN, REFUSED),
                    (b"brokerPermission=6", ADMIN, ResponseCode.SUCCESS),
                ):
                    found = await answer(one, CODE.UPDATE_BROKER_CONFIG, None, body, by)
                    assert found.code == expected, (body, by, found.code, found.remark)
                sent = await answer(one, CODE.SEND_MESSAGE, send_header("orders"), b"x", WRITER)
                assert sent.code == ResponseCode.SUCCESS, sent.remark
            await peers.close()
            changed = await answer(channel, CODE.UPDATE_BROKER_CONFIG, None, b"brokerPermission=4", ADMIN)
            assert changed.code == ResponseCode.SUCCESS, changed.remark
            assert (await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"x", WRITER)).code == REFUSED

        with_channel(broker.address, check)
        assert "brokerPermission=4: changed over the network by 127.0.0.1" in broker.log.read_text()
        no_traceback(broker)


def test_a_message_that_a_request_names_by_its_place_counts_by_its_own_topic(plain: RunningServer) -> None:
    """Whatever topic the request says: requests 33, 36 and 37 with the right of another topic."""
    ok = ResponseCode.SUCCESS
    half = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01u\x02"

    async def check(channel: Channel) -> None:
        for topic in ("orders", "closed"):
            made = await answer(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header(topic), by=ADMIN)
            assert made.code == ok, made.remark

        async def stored(topic: str, properties: str = "", sys_flag: int = 0) -> Command:
            header = send_header(topic, properties=properties, sys_flag=sys_flag)
            found = await answer(channel, CODE.SEND_MESSAGE, header, b"x", ADMIN)
            assert found.code == ok, found.remark
            return found

        for topic, expected in (("orders", ok), ("closed", REFUSED)):
            first = await stored(topic)
            place = offset_of_message_id(first.fields["msgId"])
            prepared = await stored(topic, half, 4)
            end = EndTransactionRequestHeader(
                topic="orders",
                producer_group="p",
                tran_state_table_offset=int(prepared.fields["queueOffset"]),
                commit_log_offset=offset_of_message_id(prepared.fields["msgId"]),
                commit_or_rollback=8,
                msg_id="u",
            )
            back = ConsumerSendMsgBackRequestHeader(offset=place, group="readers", delay_level=3, origin_topic="orders")
            for code, header, by in (
                (CODE.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(topic="orders", offset=place), READER),
                (CODE.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=place), READER),
                (CODE.CONSUMER_SEND_MSG_BACK, back, READER),
                (CODE.END_TRANSACTION, end, WRITER),
            ):
                found = await answer(channel, code, header, b"", by)
                assert found.code == expected, (topic, code, found.code, found.remark)
            bounds = await answer(
                channel, CODE.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=topic, queue_id=0), by=ADMIN
            )
            more = int(bounds.fields["offset"]) - int(first.fields["queueOffset"])
            assert more == (2 if topic == "orders" else 1), "the refused end commits nothing"

    with_channel(plain.address, check)
    no_traceback(plain)


def test_a_reply_shows_no_secret_of_the_settings(users: RunningServer) -> None:
    async def check(channel: Channel) -> None:
        found = await answer(channel, CODE.GET_BROKER_CONFIG, by=ADMIN)
        assert b"initAuthenticationUser=******" in found.body
        assert ADMIN.secret_key.encode() not in found.body

    with_channel(users.address, check)
    assert ADMIN.secret_key not in users.log.read_text()


def test_a_changed_file_counts_within_seconds_and_a_broken_one_does_not(tmp_path: Path) -> None:
    with plain_broker(tmp_path) as broker:
        path = tmp_path / "conf" / "plain_acl.yml"

        async def check(channel: Channel) -> None:
            await _makes_orders(channel)

            async def until(by: Credentials, expected: int) -> None:
                async with asyncio.timeout(20):
                    while (await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"x", by)).code != expected:
                        await asyncio.sleep(0.05)

            await until(WRITER, ResponseCode.SUCCESS)
            path.write_text(PLAIN_RULES.replace("- orders=PUB", "- orders=DENY"))
            await until(WRITER, REFUSED)
            broken = ("accounts: [", "[" * 20_000, "\x00", "accounts: [{accessKey: x}]")[
                : 2 if LEVEL == "sample" else 4
            ]
            for number, text in enumerate(broken, 1):
                path.write_text(text)
                async with asyncio.timeout(30):
                    while broker.log.read_text().count("stay in effect") < number:
                        await asyncio.sleep(0.05)
                found = await answer(channel, CODE.GET_BROKER_CONFIG, by=ADMIN)
                assert found.code == ResponseCode.SUCCESS, "the old rules stay"
            path.write_text(PLAIN_RULES)
            await until(WRITER, ResponseCode.SUCCESS)

        with_channel(broker.address, check)
        log = broker.log.read_text()
        assert not [one for one in (ADMIN, READER, WRITER) if one.secret_key in log]
        no_traceback(broker)


# --- users


BOB = Credentials("bob", "secret-of-bob")


def test_users_and_policies_are_made_kept_and_removed(tmp_path: Path) -> None:
    user = auth.UserRequestHeader(username="bob")
    subject = auth.AclRequestHeader(subject="User:bob")

    async def makes(channel: Channel) -> None:
        await _makes_orders(channel)
        made = await answer(
            channel,
            CODE.AUTH_CREATE_USER,
            user,
            encode_body(UserInfo(password=BOB.secret_key, user_type="Normal")),
            ADMIN,
        )
        assert made.code == ResponseCode.SUCCESS, made.remark
        again = await answer(channel, CODE.AUTH_CREATE_USER, user, encode_body(UserInfo(password="x")), ADMIN)
        assert (again.code, again.remark) == (REFUSED, "The user is existed")
        assert (await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"x", BOB)).code == REFUSED
        entry = PolicyEntryInfo(resource="Topic:ord*", actions=["Pub"], decision="Allow", source_ips=["127.0.0.0/8"])
        acl = AclInfo(subject="User:bob", policies=[PolicyInfo(entries=[entry])])
        assert (await answer(channel, CODE.AUTH_CREATE_ACL, subject, encode_body(acl), ADMIN)).code == 0
        for request in (CODE.AUTH_CREATE_USER, CODE.AUTH_LIST_USER, CODE.AUTH_GET_ACL, CODE.AUTH_DELETE_ACL):
            assert (await answer(channel, request, subject, b"{}", BOB)).code == REFUSED, request

    async def is_kept(channel: Channel) -> None:
        sent = await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"x", BOB)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        found = await answer(channel, CODE.AUTH_LIST_USER, auth.ListUsersRequestHeader(filter=""), by=ADMIN)
        assert [one["username"] for one in json.loads(found.body)] == ["administrator", "bob"]
        found = await answer(channel, CODE.AUTH_GET_ACL, subject, by=ADMIN)
        (entry,) = decode_body(found.body, AclInfo).policies[0].entries
        assert (entry.resource, entry.actions, entry.decision) == ("Topic:ord*", ["Pub"], "Allow")
        found = await answer(channel, CODE.AUTH_DELETE_ACL, auth.DeleteAclRequestHeader(subject="User:bob"), by=ADMIN)
        assert found.code == ResponseCode.SUCCESS, found.remark
        assert (await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"x", BOB)).code == REFUSED
        deleted = await answer(channel, CODE.AUTH_DELETE_USER, user, by=ADMIN)
        assert deleted.code == ResponseCode.SUCCESS, deleted.remark
        unknown = await answer(channel, CODE.SEND_MESSAGE, send_header("orders"), b"x", BOB)
        assert (unknown.code, unknown.remark) == (REFUSED, "User:bob is not found.")

    with users_broker(tmp_path) as broker:
        with_channel(broker.address, makes)
        path = store_of(broker) / "config" / "rocketflowUsers.json"
        assert path.stat().st_mode & 0o777 == 0o600
        broker.kill()
    known = serving_broker(store_of(broker))
    assert known is not None
    dumped = str([one for file in (path, path.parents[1] / "rocketflow" / "broker") for one in dump_file(file)])
    assert "bob" in dumped
    assert known.address in dumped
    assert not [one for one in (known.secret, ADMIN.secret_key, BOB.secret_key) if one in dumped]
    with users_broker(tmp_path) as broker:
        with_channel(broker.address, is_kept)
        log = broker.log.read_text()
        assert BOB.secret_key not in log
        no_traceback(broker)


# --- jobs, and the broker's own requests


@pytest.mark.parametrize("kind", ["accounts"] if LEVEL == "sample" else ["none", "accounts", "users"])
def test_a_job_that_reads_the_stores_directory_needs_no_account(kind: str, tmp_path: Path) -> None:
    make = {"none": running_broker, "accounts": plain_broker, "users": users_broker}[kind]
    with make(tmp_path, "bindAddress=0.0.0.0", "rocketflow.allowInsecure=true") as broker:
        path = store_of(broker)
        known = serving_broker(path)
        assert known is not None
        assert (path / "rocketflow" / "broker").stat().st_mode & 0o777 == 0o600
        assert known.secret not in repr(known)
        far = f"{other_address()}:{broker.port}"
        for address in (broker.address, far):
            client = StoreClient(address, path, known.store_id, secret=known.secret)
            assert client.ask(CODE.ROCKETFLOW_LAST_COMMIT, LastCommitBody(sink_id="s"), EnvelopeBody).envelope is None
            with pytest.raises(RequestRefusedError, match="17"):  # the topic does not exist: the request was taken
                client.commit_offsets("g", {("none", 0): 1})
            with pytest.raises(NotAllowedError, match="another secret"):
                StoreClient(address, path, known.store_id, secret="x").check()
        with pytest.raises(NotAllowedError):
            StoreClient(far, path, known.store_id).check()


@pytest.mark.skipif(LEVEL == "sample", reason="starts a NameServer and two brokers")
def test_a_broker_signs_its_registrations(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(PLAIN_RULES)
    options = ("aclEnable=true", f"rocketmqHome={tmp_path}", f"kvConfigPath={tmp_path}/kv.json")
    own = {"accessKey": ADMIN.access_key, "secretKey": ADMIN.secret_key}
    with running("namesrv", tmp_path, *(part for one in options for part in ("--set", one))) as names:

        async def brokers(channel: Channel) -> None:
            found = await answer(channel, CODE.GET_BROKER_CLUSTER_INFO, by=READER)
            assert (b'"broker-a"' in found.body) is expected, found.body

        for expected, settings in (
            (False, ()),
            (True, (f"innerClientAuthenticationCredentials={json.dumps(own)}",)),
        ):
            with plain_broker(tmp_path / str(expected), f"namesrvAddr={names.address}", *settings) as broker:
                with_channel(names.address, brokers)
                if not expected:
                    assert "did not take the registration (answer 16" in broker.log.read_text()

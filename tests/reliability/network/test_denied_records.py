"""Row N11: no byte of a message leaves for an account that may not read its topic, by whatever request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.groups.member_calls import offset_of_message_id
from rocketflow.remoting import bodies
from rocketflow.remoting.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, answer
from rocketflow.remoting.headers import auth
from rocketflow.remoting.headers.client import ConsumeMessageDirectlyResultRequestHeader
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.pull import (
    QueryMessageRequestHeader,
    UniqueKeyQueryRequestHeader,
    ViewMessageRequestHeader,
)
from rocketflow.remoting.headers.rocketflow import PullRangeRequestHeader
from rocketflow.remoting.headers.send import ConsumerSendMsgBackRequestHeader
from rocketflow.remoting.headers.transaction import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from rocketflow.remoting.signature import Credentials, sign
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig
from tests.reliability.network.access import usual_fields
from tests.support.processed_codes import BROKER
from tests.support.request_headers import pull_header, send_header, topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback
from tests.support.signed import ADMIN, plain_broker, signed, users_broker

pytestmark = pytest.mark.slow

CODE = RequestCode
OK = ResponseCode.SUCCESS
REFUSED = ResponseCode.NO_PERMISSION
SECONDS = 30.0

SECRET: Final = b"the-secret-body"
"""Part of the body of every message of the topic `secret`."""

OWNER = Credentials("owner-1", "secret-of-the-owner")
HELPER = Credentials("helper-1", "secret-of-the-helper")
OTHER = Credentials("other-1", "secret-of-the-other")
RULES: Final = f"""
accounts:
- {{accessKey: {ADMIN.access_key}, secretKey: {ADMIN.secret_key}, admin: true}}
- {{accessKey: {OWNER.access_key}, secretKey: {OWNER.secret_key}, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}}
- {{accessKey: {HELPER.access_key}, secretKey: {HELPER.secret_key}, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}}
- accessKey: {OTHER.access_key}
  secretKey: {OTHER.secret_key}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
  topicPerms: [secret=DENY]
  groupPerms: [owners=DENY]
"""
"""`owner-1` and `helper-1` may send and read all; `other-1` not the topic `secret`, nor by the group `owners`."""

SETTINGS: Final = (
    *("transactionTimeOut=1", "transactionCheckInterval=200", "transactionCheckMax=3"),
    *("enableLmq=true", "enableMultiDispatch=true"),
)
LMQ: Final = "%LMQ%light"
"""A queue of messages that are stored under other topics."""

INTERNAL: Final = (
    *("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
    *("DefaultCluster_REPLY_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
)
UNKNOWN: Final = INTERNAL[1]
"""The store writes its messages; a broker does not serve it as a topic."""

RETURNED: Final = ("%RETRY%owners", "%DLQ%owners", "%RETRY%shared", "%DLQ%shared")


class Connection:
    """One client's connection: it signs its requests, and keeps what the broker sends by itself."""

    def __init__(self, address: str, by: Credentials, client_id: str) -> None:
        self.by = by
        self.client_id = client_id
        self.received: list[Command] = []
        codes = (CODE.CHECK_TRANSACTION_STATE, CODE.PUSH_REPLY_MESSAGE_TO_CLIENT, CODE.CONSUME_MESSAGE_DIRECTLY)
        self._peers = Peers(dict.fromkeys(codes, self._take))
        self._address = address

    def _take(self, channel: object, command: Command) -> None:
        self.received.append(command)
        if not command.is_one_way:
            channel.send(answer(command, OK))  # type: ignore[attr-defined]

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        """Return the answer to a request."""
        channel = await self._peers.channel(self._address)
        return await channel.ask(signed(code, header, body, self.by), timeout_s=SECONDS)

    async def done(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        """Return the answer to a request that has to be taken."""
        found = await self.ask(code, header, body)
        assert found.code == OK, (code, found.code, found.remark)
        return found

    async def sent_by_field(self, code: int, fields: dict[str, str], body: bytes) -> Command:
        """Return the answer to a request of any code."""
        command = Command(code, dict(fields), body=body)
        sign(command, self.by)
        return await (await self._peers.channel(self._address)).ask(command, timeout_s=SECONDS)

    async def send(self, topic: str, properties: str = "", sys_flag: int = 0, body: bytes = SECRET) -> int:
        """Send a message; return its place in the log."""
        born_ms = int(time.time() * 1000)
        header = send_header(topic, properties=properties, sys_flag=sys_flag, born_timestamp=born_ms)
        found = await self.done(CODE.SEND_MESSAGE, header, body)
        return offset_of_message_id(found.fields["msgId"])

    async def heartbeat(self, producers: list[str], consumers: list[str], topics: list[str]) -> Command:
        """Return the answer to a heartbeat."""
        subscriptions = [SubscriptionData(topic=one, sub_string="*", sub_version=1) for one in topics]
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=one) for one in producers],
            consumer_data_set=[ConsumerData(group_name=one, subscription_data_set=subscriptions) for one in consumers],
        )
        return await self.ask(CODE.HEART_BEAT, None, encode_body(data))

    async def close(self) -> None:
        await self._peers.close()


@asynccontextmanager
async def connected(broker: RunningServer, *wanted: tuple[Credentials, str]) -> AsyncIterator[list[Connection]]:
    """Open connections of accounts, each with a client id."""
    found = [Connection(broker.address, by, client_id) for by, client_id in wanted]
    try:
        yield found
    finally:
        for one in found:
            await one.close()


def half(group: str) -> str:
    """Return the properties of a half message."""
    return f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02UNIQ_KEY\x01half-{group}\x02"


def range_header(topic: str, queue_id: int = 0) -> PullRangeRequestHeader:
    return PullRangeRequestHeader(
        consumer_group="mine", topic=topic, queue_id=queue_id, start=0, end=10_000, max_bytes=1 << 20
    )


async def places_in(by: Connection, topic: str, count: int = 1, queue_id: int = 0) -> list[int]:
    """Return the places in the log of the messages of a queue, once there are `count`."""
    async with asyncio.timeout(SECONDS):
        while (found := (await by.ask(CODE.ROCKETFLOW_PULL_RANGE, range_header(topic, queue_id))).body).count(
            SECRET
        ) < count:
            await asyncio.sleep(0.02)
    places, begin = [], 0
    while begin < len(found):
        places.append(int.from_bytes(found[begin + 28 : begin + 36], "big"))
        begin += int.from_bytes(found[begin : begin + 4], "big")
    return places


async def stored(owner: Connection, admin: Connection) -> dict[str, int]:
    """Store a message of `secret` in every topic that can hold one; return their places in the log, by kind."""
    for topic in ("secret", "other", LMQ):
        await admin.done(CODE.UPDATE_AND_CREATE_TOPIC, topic_header(topic, 1))
    for group in ("owners", "shared", "mine"):
        config = SubscriptionGroupConfig(group_name=group, retry_queue_nums=1, retry_max_times=16)
        await admin.done(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(config))
    later_ms = int(time.time() * 1000) + 3_600_000
    places = {
        "ordinary": await owner.send("secret", "KEYS\x01k\x02UNIQ_KEY\x01u\x02"),
        "half": await owner.send("secret", half("abandoned"), sys_flag=4),
        "timer": await owner.send("secret", f"TIMER_DELIVER_MS\x01{later_ms}\x02"),
        "trace": await owner.send("RMQ_SYS_TRACE_TOPIC", "KEYS\x01k\x02"),
    }
    await owner.send("secret", f"INNER_MULTI_DISPATCH\x01{LMQ}\x02")
    await owner.send("secret", "DELAY\x0118\x02KEYS\x01k\x02")
    for group in ("owners", "shared"):
        places[f"retry of {group}"] = await owner.send(f"%RETRY%{group}", "KEYS\x01k\x02RETRY_TOPIC\x01secret\x02")
        for level in (-1, 18):
            back = ConsumerSendMsgBackRequestHeader(offset=places["ordinary"], group=group, delay_level=level)
            await owner.done(CODE.CONSUMER_SEND_MSG_BACK, back)
        (places[f"dead letter of {group}"],) = await places_in(admin, f"%DLQ%{group}")
    delayed = await places_in(admin, "SCHEDULE_TOPIC_XXXX", 3, 17)
    places |= zip(("delayed", "delayed retry of owners", "delayed retry of shared"), delayed, strict=True)
    asked = "CORRELATION_ID\x01c-stored\x02REPLY_TO_CLIENT\x01owner\x02"
    assert (await owner.heartbeat(["askers"], [], [])).code == OK
    await owner.send("secret", asked)
    await owner.done(CODE.SEND_REPLY_MESSAGE, send_header(INTERNAL[4], properties=asked), SECRET)
    for kind, topic in (("reply", INTERNAL[4]), ("abandoned", INTERNAL[3])):
        (places[kind],) = await places_in(admin, topic)
    return places


@pytest.fixture(scope="module", params=["accounts", "users"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a broker whose accounts are those of RULES."""
    home = tmp_path_factory.mktemp(request.param)
    if request.param == "accounts":
        with plain_broker(home, *SETTINGS, rules=RULES) as found:
            yield found
            no_traceback(found)
        return
    with users_broker(home, *SETTINGS) as found:
        run(make_users(found))
        yield found
        no_traceback(found)


async def make_users(broker: RunningServer) -> None:
    """Make the users and policies that RULES say."""
    denied = bodies.PolicyEntryInfo(resource="Topic:secret", actions=["All"], decision="Deny")
    denied_too = bodies.PolicyEntryInfo(resource="Group:owners", actions=["All"], decision="Deny")
    everything = [
        bodies.PolicyEntryInfo(resource=f"{kind}:*", actions=["Pub", "Sub", "Get", "List"], decision="Allow")
        for kind in ("Topic", "Group")
    ]
    async with connected(broker, (ADMIN, "admin")) as (admin,):
        for who, entries in (
            (OWNER, everything),
            (HELPER, everything),
            (OTHER, [*everything, denied, denied_too]),
        ):
            user = bodies.UserInfo(password=who.secret_key, user_type="Normal")
            await admin.done(CODE.AUTH_CREATE_USER, auth.UserRequestHeader(username=who.access_key), encode_body(user))
            acl = bodies.AclInfo(subject=f"User:{who.access_key}", policies=[bodies.PolicyInfo(entries=entries)])
            header = auth.AclRequestHeader(subject=f"User:{who.access_key}")
            await admin.done(CODE.AUTH_CREATE_ACL, header, encode_body(acl))


Attack = tuple[int, Header]

QUEUES: Final = {**dict.fromkeys(("secret", *INTERNAL, *RETURNED), 0), "SCHEDULE_TOPIC_XXXX": 17}
INDEXED: Final = ("secret", "RMQ_SYS_TRACE_TOPIC", "%RETRY%owners", "%RETRY%shared", "%DLQ%owners", "%DLQ%shared")


def reads(places: dict[str, int]) -> Iterator[Attack]:
    """Yield the requests whose answers have a message of `secret` if their sender may read it."""
    for topic, queue_id in QUEUES.items():
        for code in (CODE.PULL_MESSAGE, CODE.LITE_PULL_MESSAGE):
            yield code, pull_header(topic, queue_id, consumer_group="mine")
        yield CODE.ROCKETFLOW_PULL_RANGE, range_header(topic, queue_id)
    for code in (CODE.PULL_MESSAGE, CODE.LITE_PULL_MESSAGE):  # ranges of an LMQ are always empty
        yield code, pull_header(LMQ, consumer_group="mine")
    for topic in INDEXED:
        wanted = {"topic": topic, "key": "k", "max_num": 32, "begin_timestamp": 0, "end_timestamp": 1 << 60}
        yield CODE.QUERY_MESSAGE, QueryMessageRequestHeader(**wanted)  # type: ignore[arg-type]
    yield (
        CODE.QUERY_MESSAGE,
        UniqueKeyQueryRequestHeader(topic="secret", key="u", max_num=32, begin_timestamp=0, end_timestamp=1 << 60),
    )
    for place in places.values():
        for topic_said in (None, "other"):
            yield CODE.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(topic=topic_said, offset=place)


def copies(places: dict[str, int]) -> Iterator[Attack]:
    """Yield the requests that copy a message of `secret` to where `other-1` may read it, or to its client."""
    for place in places.values():
        for level in (-1, 1):
            header = ConsumerSendMsgBackRequestHeader(
                offset=place, group="mine", delay_level=level, origin_topic="other"
            )
            yield CODE.CONSUMER_SEND_MSG_BACK, header
        yield (
            CODE.CONSUME_MESSAGE_DIRECTLY,
            ConsumeMessageDirectlyResultRequestHeader(
                consumer_group="mine", client_id="other", msg_id=message_id(place), topic="other"
            ),
        )
    yield CODE.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequestHeader(msg_id=message_id(places["abandoned"]))
    yield (
        CODE.END_TRANSACTION,
        EndTransactionRequestHeader(
            topic="other",
            producer_group="abandoned",
            tran_state_table_offset=0,
            commit_log_offset=places["half"],
            commit_or_rollback=8,
            msg_id="u",
        ),
    )


def message_id(place: int) -> str:
    return f"7F00000100002A9F{place:016X}"


PUSHES: Final = {CODE.HEART_BEAT, CODE.SEND_REPLY_MESSAGE, CODE.SEND_REPLY_MESSAGE_V2}
"""Requests after which a broker sends messages by itself: see the tests of questions and replies."""

FOR_ADMINISTRATORS: Final = {CODE.RESUME_CHECK_HALF_MESSAGE}
"""Requests that copy a stored message of any topic, and need an administrator."""

WITHOUT_RECORDS: Final = {code for code, row in BROKER.items() if not row.record} - PUSHES - FOR_ADMINISTRATORS
"""Requests whose answers and effects have no byte of a stored message; those of jobs need an administrator."""

PLACES: Final = dict.fromkeys(("abandoned", "half"), 0)


def test_every_request_that_is_declared_to_get_stored_messages_is_attacked() -> None:
    attacked = {code for code, _ in (*reads(PLACES), *copies(PLACES))}
    assert attacked - FOR_ADMINISTRATORS == {code for code, row in BROKER.items() if row.record}


def test_no_byte_of_a_message_leaves_for_an_account_that_may_not_read_its_topic(
    broker: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N11", "denied records")

    async def check() -> None:
        async with connected(broker, (OWNER, "owner"), (OTHER, "other"), (ADMIN, "admin")) as (owner, other, admin):
            places = await stored(owner, admin)
            assert (await other.heartbeat(["mine", "abandoned"], ["mine"], ["other", "%RETRY%mine"])).code == OK
            for code, header in (*reads(places), *copies(places)):
                found = await other.ask(code, header)
                assert found.code == REFUSED, (code, header, found.code, found.remark)
                assert SECRET not in found.body
                counts.trial(None, f"{code} {header}")
            for code, header in reads(places):
                found = await admin.ask(code, header)
                is_unknown = found.code == ResponseCode.TOPIC_NOT_EXIST and UNKNOWN in (found.remark or "")
                assert SECRET in found.body or is_unknown, (code, header, found.code, found.remark)
            for code in sorted(WITHOUT_RECORDS):
                for topic in QUEUES:
                    usual = usual_fields().get(code, {})
                    topics = {name: topic for name in usual if name in ("topic", "b", "originTopic", "topicList")}
                    groups = {name: "owners" for name in usual if "roup" in name or name == "a"}
                    found = await other.sent_by_field(code, {**usual, **topics, **groups}, b"")
                    assert SECRET not in found.body + str((found.remark, found.fields)).encode(), (code, topic)
            asked = ConsumeMessageDirectlyResultRequestHeader(
                consumer_group="mine", client_id="other", msg_id=message_id(places["ordinary"])
            )
            refused = await admin.ask(CODE.CONSUME_MESSAGE_DIRECTLY, asked)
            assert refused.code == REFUSED, refused.remark
            assert refused.remark == "The Consumer <mine> <other> may not read the message"
            for topic in ("%RETRY%mine", "%DLQ%mine", "other"):
                assert SECRET not in (await admin.ask(CODE.ROCKETFLOW_PULL_RANGE, range_header(topic))).body
            assert not [one for one in other.received if SECRET in one.body]
            body = b"RETRY_TOPIC\x01secret\x02"
            await owner.send("%RETRY%mine", "RETRY_TOPIC\x01other\x02", body=body)
            header = pull_header("%RETRY%mine", consumer_group="mine")
            assert body in (await other.done(CODE.PULL_MESSAGE, header)).body, "a body names no topic"

    run(check())


def test_producers_are_asked_about_half_messages_of_topics_that_they_may_publish_to(broker: RunningServer) -> None:
    async def check() -> None:
        async with connected(broker, (OWNER, "owner"), (OTHER, "other"), (OTHER, "owner"), (ADMIN, "admin")) as found:
            owner, other, same_id, admin = found
            await admin.done(CODE.UPDATE_AND_CREATE_TOPIC, topic_header("secret", 1))
            await admin.done(CODE.UPDATE_AND_CREATE_TOPIC, topic_header("other", 1))
            for one in (other, same_id, owner):
                assert (await one.heartbeat(["checked"], [], [])).code == OK
            await owner.send("secret", half("checked"), sys_flag=4)
            await owner.send("other", half("checked"), sys_flag=4, body=b"free")
            async with asyncio.timeout(SECONDS):
                while len([one for one in owner.received if SECRET in one.body]) < 2:
                    await asyncio.sleep(0.02)
                while b"free" not in b"".join(one.body for one in (*other.received, *same_id.received)):
                    await asyncio.sleep(0.02)
            assert not [one for one in (*other.received, *same_id.received) if SECRET in one.body]

    run(check())


def test_a_reply_reaches_the_client_whose_request_its_sender_may_read(broker: RunningServer) -> None:
    topic = INTERNAL[4]

    def waits(correlation_id: str) -> str:
        return f"CORRELATION_ID\x01{correlation_id}\x02REPLY_TO_CLIENT\x01asker\x02TTL\x0130000\x02"

    async def check() -> None:
        wanted = (OWNER, "asker"), (OTHER, "asker"), (OTHER, "other"), (HELPER, "helper"), (ADMIN, "admin")
        async with connected(broker, *wanted) as (asker, thief, other, helper, admin):
            await admin.done(CODE.UPDATE_AND_CREATE_TOPIC, topic_header("secret", 1))
            assert (await asker.heartbeat(["askers"], [], [])).code == OK

            async def reply(by: Connection, correlation_id: str, body: bytes) -> int:
                header = send_header(topic, properties=waits(correlation_id))
                return (await by.ask(CODE.SEND_REPLY_MESSAGE, header, body)).code

            await asker.send("secret", waits("c1"))
            assert await reply(other, "c1", b"forged") == REFUSED, "it may not read the request"
            assert await reply(other, "c2", b"forged") == REFUSED
            assert await reply(helper, "c2", b"no such request") == REFUSED
            assert await reply(helper, "c1", b"an answer") == OK
            assert await reply(asker, "c3", b"to the own account") == OK
            assert await reply(admin, "c4", b"of an administrator") == OK
            assert [one.body for one in asker.received] == [b"an answer", b"to the own account", b"of an administrator"]
            assert (await thief.heartbeat(["thieves"], [], [])).code == OK
            await asker.send("secret", waits("c5"))
            assert await reply(helper, "c5", SECRET) == OK
            assert asker.received[-1].body == SECRET
            assert await reply(other, "c5", b"to the own account") == OK
            assert [one.body for one in thief.received] == [b"to the own account"]
            assert len(asker.received) == 4

    run(check())


def test_a_pull_that_waits_is_answered_by_the_rights_of_its_end(tmp_path: Path) -> None:
    """A right that is taken away while a pull waits counts for its answer."""

    async def check(broker: RunningServer) -> None:
        async with connected(broker, (HELPER, "helper"), (OWNER, "owner"), (ADMIN, "admin")) as (helper, owner, admin):
            await admin.done(CODE.UPDATE_AND_CREATE_TOPIC, topic_header("secret", 1))
            waiting = pull_header("secret", consumer_group="mine", sys_flag=6, suspend_timeout_millis=60_000)
            asked = asyncio.ensure_future(helper.ask(CODE.PULL_MESSAGE, waiting))
            now = pull_header("secret", consumer_group="mine")
            assert (await helper.ask(CODE.PULL_MESSAGE, now)).code == ResponseCode.PULL_NOT_FOUND
            path = tmp_path / "conf" / "plain_acl.yml"
            path.write_text(RULES.replace(f"{HELPER.secret_key}, defaultTopicPerm: PUB|SUB", f"{HELPER.secret_key}"))
            async with asyncio.timeout(SECONDS):
                while (await helper.ask(CODE.PULL_MESSAGE, now)).code != REFUSED:
                    await asyncio.sleep(0.05)
            await owner.send("secret")
            found = await asked
            assert (found.code, found.body) == (REFUSED, b""), found.remark

    with plain_broker(tmp_path, rules=RULES) as broker:
        run(check(broker))
        no_traceback(broker)

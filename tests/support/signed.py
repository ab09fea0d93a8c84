"""Brokers with accounts, and requests with and without their signatures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.client import ClientOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.remoting.command import VERSION, Command, decode_command, encode_command, request
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.signature import Credentials, RequestMark, sign
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.scripted_broker import ScriptedBroker, scripted
from tests.support.servers import RunningServer, running_broker

if TYPE_CHECKING:
    from rocketflow.remoting.headers.header import Header

ADMIN: Final = Credentials("administrator", "secret-of-the-admin")
READER: Final = Credentials("reader-1", "secret-of-the-reader")
WRITER: Final = Credentials("writer-1", "secret-of-the-writer")

PLAIN_RULES: Final = """
globalWhiteRemoteAddresses: []
accounts:
- accessKey: administrator
  secretKey: secret-of-the-admin
  admin: true
- accessKey: reader-1
  secretKey: secret-of-the-reader
  whiteRemoteAddress:
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [orders=SUB, closed=DENY]
  groupPerms: [readers=SUB]
- accessKey: writer-1
  secretKey: secret-of-the-writer
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB
  - both = PUB|SUB
"""
"""A plain_acl.yml with these accounts: `reader-1` consumes orders as readers, `writer-1` sends to orders."""


def signed_frame(data: bytes, by: Credentials | None, mark: RequestMark | None = None) -> bytes:
    """Return a frame, signed by an account if there is one."""
    if by is None:
        return data
    command = decode_command(next(FrameReceiver().feed(data)))
    sign(command, by, mark)
    return encode_command(command)


def signed(
    code: int, header: Header | None = None, body: bytes = b"", by: Credentials | None = None, version: int = VERSION
) -> Command:
    """Return a request, signed by an account if there is one."""
    command = request(code, header, body=body)
    command.version = version
    if by is not None:
        sign(command, by)
    return command


@contextmanager
def plain_broker(home: Path, *settings: str, rules: str = PLAIN_RULES) -> Iterator[RunningServer]:
    """Run a broker with accounts of RocketMQ 4, whose file is `home/conf/plain_acl.yml`."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "plain_acl.yml").write_text(rules)
    with running_broker(home, "aclEnable=true", f"rocketmqHome={home}", *settings) as broker:
        yield broker


@asynccontextmanager
async def orders_at(broker: str) -> AsyncIterator[tuple[str, AdminClient]]:
    """Create the topic orders with two queues at a broker; yield a NameServer that knows it, and ADMIN's client."""
    async with scripted(ScriptedBroker()) as names:
        names.routes = {"broker-a": broker}
        async with AdminClient(ClientOptions(name_servers=names.address, credentials=ADMIN)) as admin:
            await admin.create_topic(broker, TopicConfig(topic_name="orders", write_queue_nums=2, read_queue_nums=2))
            yield names.address, admin


@contextmanager
def users_broker(home: Path, *settings: str) -> Iterator[RunningServer]:
    """Run a broker with users and policies of RocketMQ 5; its super user is ADMIN."""
    first = json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key})
    options = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={first}")
    with running_broker(home, *options, *settings) as broker:
        yield broker

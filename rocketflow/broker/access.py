"""The access control of a broker: its rules, the secret of jobs, and the requests about users.

Requests that name a message by its place in the log are also checked by the topic that this message has: RocketMQ's
brokers check the topic that the request says, or none.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.guard import Guard
from rocketflow.access.permissions import USER_CODES, Action
from rocketflow.aio.server import Processor, RefusedError, Request
from rocketflow.broker.member_calls import offset_of_message_id
from rocketflow.broker.transactions.messages import read_half
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.client import ConsumeMessageDirectlyResultRequestHeader
from rocketflow.remoting.headers.pull import ViewMessageRequestHeader
from rocketflow.remoting.headers.send import ConsumerSendMsgBackRequestHeader
from rocketflow.remoting.headers.transaction import EndTransactionRequestHeader
from rocketflow_store import StoreError
from rocketflow_store.spi.broker import decode_stored
from rocketflow_store.spi.names import HALF_TOPIC

if TYPE_CHECKING:
    from rocketflow.access.plain_files import PlainFiles
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.user_requests import UserRequests
    from rocketflow.remoting.command import Command
    from rocketflow_store.spi.broker import WritingStore

_READ: Final = frozenset({Action.SUB, Action.GET})

_PLACES: Final[Mapping[int, tuple[Callable[[Command], int], frozenset[Action]]]] = {
    RequestCode.VIEW_MESSAGE_BY_ID: (lambda command: command.header(ViewMessageRequestHeader).offset, _READ),
    RequestCode.CONSUMER_SEND_MSG_BACK: (
        lambda command: command.header(ConsumerSendMsgBackRequestHeader).offset,
        frozenset({Action.SUB}),
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: (
        lambda command: offset_of_message_id(command.header(ConsumeMessageDirectlyResultRequestHeader).msg_id),
        _READ,
    ),
    RequestCode.END_TRANSACTION: (
        lambda command: command.header(EndTransactionRequestHeader).commit_log_offset,
        frozenset({Action.PUB}),
    ),
}
"""By code, the place in the log that a request names, and the actions of which its sender needs one."""


class Access:
    """The check of a broker's requests; `job_secret` is for jobs that see the store's directory."""

    def __init__(self, settings: BrokerSettings, store: WritingStore) -> None:
        """Load accounts or users. Blocks. Raises UsageError and StoreError."""
        self.job_secret = secrets.token_hex(32)
        self._plain: PlainFiles | None = settings.plain_files()
        self._store = store
        self._users: UserRequests | None = None
        users = settings.users
        if users is not None:
            from rocketflow.broker.user_requests import UserRequests

            self._users = UserRequests(store, settings.broker_cluster_name, users)

    def guarded(self, processors: Mapping[int, Processor]) -> dict[int, Processor]:
        """Return the processors, and those of users, called only for requests that are allowed."""
        rules = self._plain if self._users is None else self._users.rules
        of_users = dict.fromkeys(USER_CODES, _refuse) if self._users is None else self._users.by_code()
        guard = Guard(rules, self.job_secret)
        of_places = {} if rules is None else {code: self._by_place(guard, processors[code]) for code in _PLACES}
        return guard.guarded({**processors, **of_users, **of_places})

    def _by_place(self, guard: Guard, processor: Processor) -> Processor:
        """Return a processor that is called only if the sender may use the topic of the message that it names."""

        async def process(request: Request) -> None:
            place, actions = _PLACES[request.command.code]
            topic = await asyncio.to_thread(self._topic_at, place(request.command))
            if topic is not None:
                guard.check_topic(request, topic, actions)
            rest = processor(request)
            if rest is not None:
                await rest

        return process

    def _topic_at(self, phy_offset: int) -> str | None:
        """Return the topic of the message at an offset of the log, the real one of a half message. Blocks.

        None if there is no message: the processor refuses the request itself.
        """
        try:
            record = self._store.read_record(phy_offset)
            stored = None if record is None else decode_stored(record)
        except StoreError:
            return None
        if stored is None:
            return None
        half = read_half(stored) if stored.message.topic == HALF_TOPIC else None
        return stored.message.topic if half is None else half.real_topic

    def services(self) -> list[Coroutine[Any, Any, None]]:
        """Return what runs beside the requests: the watch on the files of accounts."""
        return [] if self._plain is None else [self._plain.watch()]


def _refuse(request: Request) -> None:
    """Refuse a request about users of a broker that has none."""
    raise RefusedError(
        ResponseCode.SYSTEM_ERROR,
        f"request {request.command.code}: the broker has no users: set authenticationEnabled=true and "
        "initAuthenticationUser in broker.conf",
    )

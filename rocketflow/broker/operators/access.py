"""The access control of a broker: its rules, the secret of jobs, and whose a record is that leaves or is copied.

Where a request names a topic, the needs that its code is declared with decide. Where bytes of a stored message leave or
are copied, this message decides as well, by the `record` of the declaration, whatever the request says: RocketMQ's
brokers check what the request says, or nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.guard import Guard, Sender
from rocketflow.access.permissions import (
    ORIGIN_TOPICS,
    PUBLISH,
    READ,
    Action,
    Need,
    record_needs,
    topic_needs,
)
from rocketflow.access.served import Served, rows_of, served_by
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.operators.user_requests import UserRequests
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store.spi.broker import decode_properties, decode_stored, stored_messages
from rocketflow_store.spi.names import DLQ_PREFIX, LMQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.access.guard import Rules
    from rocketflow.access.plain_files import PlainFiles
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import StoredMessage, WritingStore

_ORIGINS: Final = re.compile(rb"(?:%b)\x01([^\x00-\x1f]*)" % "|".join(ORIGIN_TOPICS).encode())
"""A property that names where a retry or dead letter comes from; bodies may have the same bytes."""

_RETURNED: Final = (RETRY_PREFIX, DLQ_PREFIX)


class Access:
    """The check of a broker's requests; `job_secret` is for jobs that see the store's directory."""

    def __init__(self, settings: BrokerSettings, store: WritingStore) -> None:
        """Load accounts or users. Blocks. Raises UsageError and StoreError."""
        self.job_secret = secrets.token_hex(32)
        self._plain: PlainFiles | None = settings.plain_files()
        self._users: UserRequests | None = None
        users = settings.users
        if users is not None:
            self._users = UserRequests(store, settings.broker_cluster_name, users)
        rules: Rules | None = self._plain if self._users is None else self._users.rules
        self.guard = Guard(rules, self.job_secret)

    @property
    def has_rules(self) -> bool:
        """Return whether there are accounts."""
        return self.guard.has_rules

    def user_requests(self) -> list[Served]:
        """Return the requests about users, which are refused if the broker has none."""
        if self._users is not None:
            return served_by(self._users)
        return [Served(code, row, _refuse) for code, row in rows_of(UserRequests).items()]

    def may_publish(self, sender: Sender, topic: str) -> bool:
        """Return whether the sender of an earlier request may publish to a topic now."""
        return self.guard.allows(sender, topic_needs(topic, PUBLISH))

    def may_read(self, sender: Sender, record: bytes) -> bool:
        """Return whether the sender of an earlier request may read a record now."""
        return not self.has_rules or self.guard.allows(sender, _needs(decode_stored(record), READ))

    def check_record(self, request: Request, record: bytes) -> None:
        """Check the right to a record that leaves or is copied for a request. Raises RefusedError."""
        if self.has_rules:
            self.check_stored(request, decode_stored(record))

    def check_stored(self, request: Request, stored: StoredMessage) -> None:
        """Check the right to a stored message as `check_record` does."""
        if self.has_rules:
            self.guard.check_needs(request, _needs(stored, self.guard.record_actions(request)))

    def check_pulled(self, request: Request, topic: str, data: bytes | bytearray | memoryview) -> None:
        """Check the records that a pull of a topic has found. Raises RefusedError.

        Those of an ordinary topic are as free as the topic, which was checked before. Retries and dead letters need
        the topics that they come from, and the queue of an LMQ has messages of other topics.
        """
        if not self.has_rules or not topic.startswith((*_RETURNED, LMQ_PREFIX)):
            return
        actions = self.guard.record_actions(request)
        if topic.startswith(_RETURNED):
            named = {one.decode("utf-8", "replace") for one in _ORIGINS.findall(data)}
            possible = [need for one in sorted(named) for need in topic_needs(one, actions)]
            try:
                self.guard.check_needs(request, possible)
            except RefusedError:  # a body can name any topic: the properties decide
                pass
            else:
                return
        needs = {need for stored in stored_messages(data) for need in _needs(stored, actions)}
        self.guard.check_needs(request, sorted(needs, key=lambda one: one[:2]))

    def services(self) -> list[Coroutine[Any, Any, None]]:
        """Return what runs beside the requests: the watch on the files of accounts."""
        return [] if self._plain is None else [self._plain.watch()]


def _needs(stored: StoredMessage, actions: frozenset[Action]) -> tuple[Need, ...]:
    return record_needs(stored.message.topic, decode_properties(stored.message.properties), actions)


def _refuse(request: Request) -> None:
    """Refuse a request about users of a broker that has none."""
    raise RefusedError(
        ResponseCode.SYSTEM_ERROR,
        f"request {request.command.code}: the broker has no users: set authenticationEnabled=true and "
        "initAuthenticationUser in broker.conf",
    )

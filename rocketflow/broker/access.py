"""The access control of a broker: its rules, the secret of jobs, and the requests about users."""

from __future__ import annotations

import secrets
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from rocketflow.access.guard import Guard
from rocketflow.access.permissions import USER_CODES
from rocketflow.aio.server import Processor, RefusedError, Request
from rocketflow.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from rocketflow.access.plain_files import PlainFiles
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.user_requests import UserRequests
    from rocketflow_store.spi.broker import WritingStore


class Access:
    """The check of a broker's requests; `job_secret` is for jobs that see the store's directory."""

    def __init__(self, settings: BrokerSettings, store: WritingStore) -> None:
        """Load accounts or users. Blocks. Raises UsageError and StoreError."""
        self.job_secret = secrets.token_hex(32)
        self._plain: PlainFiles | None = settings.plain_files()
        self._users: UserRequests | None = None
        users = settings.users
        if users is not None:
            from rocketflow.broker.user_requests import UserRequests

            self._users = UserRequests(store, settings.broker_cluster_name, users)

    def guarded(self, processors: Mapping[int, Processor]) -> dict[int, Processor]:
        """Return the processors, and those of users, called only for requests that are allowed."""
        rules = self._plain if self._users is None else self._users.rules
        of_users = dict.fromkeys(USER_CODES, _refuse) if self._users is None else self._users.by_code()
        return Guard(rules, self.job_secret).guarded({**processors, **of_users})

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

"""The check before a request reaches its processor.

RocketMQ's source: broker/auth/pipeline/AuthenticationPipeline.java, AuthorizationPipeline.java,
broker/BrokerController.java (initialAcl).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rocketflow.access.addresses import Host, host_of
from rocketflow.access.permissions import Audience, Need, Needs, Row
from rocketflow.access.signatures import SeenRequests, SignatureCheck, check_signature
from rocketflow.aio.server import Processor, RefusedError, Request
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.signature import ACCESS_KEY, JOB_ACCESS_KEY, SIGNATURE, is_signature

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from rocketflow.access.permissions import Action
    from rocketflow.access.served import Served
    from rocketflow.remoting.command import Command

LOG: Final = logging.getLogger("rocketflow.access")

_LOG_SECONDS: Final = 1.0
_MOST_LOGGED: Final = 5
_MOST_COUNTED: Final = 1_000


class Rules(Protocol):
    """Accounts or users, and what they allow."""

    def refusal(
        self, row: Row, command: Command, host: Host | None, check: SignatureCheck = check_signature
    ) -> str | None:
        """Return why a request is refused, None if it is allowed; `check` is called at most once.

        Raises HeaderError and BodyError.
        """

    def account_of(self, command: Command, host: Host | None) -> str:
        """Return the account that sent a request, "" if none is proven. Raises HeaderError."""

    def lacked(self, name: str, needs: Iterable[Need], host: Host | None) -> str | None:
        """Return why an account may not do at once what `needs` say, None if it may."""


class Sender(NamedTuple):
    """The account that sent a request, "" if none is proven, and its host."""

    name: str
    host: Host | None


NO_SENDER: Final = Sender("", None)
"""The sender of every request to a server without accounts."""


def refusal(
    row: Row,
    command: Command,
    host: Host | None,
    rules: Rules | None,
    job_secret: str,
    check: SignatureCheck = check_signature,
) -> str | None:
    """Return why a request is refused, None if it is allowed. Raises HeaderError and BodyError.

    A job's signature counts for the requests of jobs only. Without `rules`, clients and brokers are not checked, and
    operators and other jobs have to be on the server's host.
    """
    if row.of_jobs and job_secret and command.fields.get(ACCESS_KEY) == JOB_ACCESS_KEY:
        return check(command, job_secret, "the store has another secret: run the job again")
    if rules is not None:
        return rules.refusal(row, command, host, check)
    if row.audience in (Audience.CLIENT, Audience.BROKER) or (host is not None and host.is_loopback):
        return None
    return (
        f"request {command.code} is for {row.audience.value}, and no access control is set up: send it from the "
        "server's host, or set aclEnable=true or authenticationEnabled=true"
    )


class Guard:
    """Checks requests by `rules`, which may change; refusals are logged at most once a second."""

    def __init__(self, rules: Rules | None = None, job_secret: str = "") -> None:
        self._rules = rules
        self._job_secret = job_secret
        self._seen = SeenRequests()
        self._rows: dict[int, Row] = {}
        self._refused: Counter[str] = Counter()
        self._logged = 0.0

    def guarded(self, requests: Iterable[Served]) -> dict[int, Processor]:
        """Return processors by code that are called only if their requests are allowed.

        Without rules, processors of clients' requests are returned as they are.
        """
        found: dict[int, Processor] = {}
        for code, row, processor in requests:
            self._rows[code] = row
            is_free = self._rules is None and row.audience in (Audience.CLIENT, Audience.BROKER)
            found[code] = processor if is_free else self._checked(row, processor)
        return found

    def _checked(self, row: Row, processor: Processor) -> Processor:
        def process(request: Request) -> Coroutine[Any, Any, None] | None:
            self._check(row, request, self._seen.check)
            return processor(request)

        return process

    @property
    def has_rules(self) -> bool:
        """Return whether there are accounts."""
        return self._rules is not None

    def sender(self, request: Request) -> Sender:
        """Return who sent a request, NO_SENDER without rules. Raises HeaderError."""
        if self._rules is None:
            return NO_SENDER
        host = host_of(request.channel.address)
        return Sender(self._rules.account_of(request.command, host), host)

    def allows(self, sender: Sender, needs: Iterable[Need]) -> bool:
        """Return whether a sender of an earlier request may do at once what `needs` say."""
        return self._rules is None or self._rules.lacked(sender.name, needs, sender.host) is None

    def allows_signed(self, command: Command, content: bytes, host: Host | None) -> bool:
        """Return whether a request is allowed; `command` has the fields that decide, `content` is what was signed."""

        def check(command: Command, secret_key: str, otherwise: str) -> str | None:
            is_right = is_signature(command.fields.get(SIGNATURE, ""), content, secret_key)
            return self._seen.take(command, content) if is_right else otherwise

        return refusal(self._rows[command.code], command, host, self._rules, "", check) is None

    def check_again(self, request: Request) -> None:
        """Check a request that has waited: the rules may have changed meanwhile. Raises RefusedError."""
        if self._rules is not None:
            self._check(self._rows[request.command.code], request, check_signature)

    def record_actions(self, request: Request) -> frozenset[Action]:
        """Return the actions of which a request needs one on each stored message that it gets."""
        return self._rows[request.command.code].record

    def check_needs(self, request: Request, needs: Iterable[Need]) -> None:
        """Check needs that a request does not name itself. Raises RefusedError."""
        if self._rules is not None:
            self._check(Row(Audience.CLIENT, (Needs("", lambda command: needs),)), request, check_signature)

    def _check(self, row: Row, request: Request, check: SignatureCheck) -> None:
        address = request.channel.address
        why = refusal(row, request.command, host_of(address), self._rules, self._job_secret, check)
        if why is not None:
            self._count(address.rpartition(":")[0], request.command.code, why)
            raise RefusedError(ResponseCode.NO_PERMISSION, why)

    def _count(self, host: str, code: int, why: str) -> None:
        """Log a refusal, or add it to the next line."""
        if len(self._refused) < _MOST_COUNTED:
            self._refused[host] += 1
        now = time.monotonic()
        if now - self._logged < _LOG_SECONDS:
            return
        self._logged = now
        counts = ", ".join(f"{count} from {one}" for one, count in self._refused.most_common(_MOST_LOGGED))
        self._refused.clear()
        LOG.warning("requests without permission: %s; the last is %d: %s", counts, code, ascii(why))

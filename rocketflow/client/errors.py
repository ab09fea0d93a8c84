"""Errors of clients.

RocketMQ's source: client/exception/MQClientException.java, MQBrokerException.java.
"""

from __future__ import annotations

from typing import ClassVar

from rocketflow.errors import RocketFlowError
from rocketflow.remoting.codes import SINCE, ResponseCode, code_name

_UNREACHABLE = 69
_USAGE = 2


class ClientError(RocketFlowError):
    """Base of the errors of clients; its text names the server, the topic or the option, and what to do."""


class ClientStateError(ClientError):
    """The client is not started, or closed already."""


class NameServerOptionError(ClientError):
    """The option or variable for NameServers names none, or has a text that is no address."""

    exit_code: ClassVar[int] = _USAGE


class NoNameServerError(ClientError):
    """No NameServer of the list answered; a request to one may be repeated."""

    exit_code: ClassVar[int] = _UNREACHABLE


class NoRouteError(ClientError):
    """The NameServers know no queue of a topic that the client may use."""


class NoBrokersError(NoRouteError):
    """The NameServers know no broker at all."""

    exit_code: ClassVar[int] = _UNREACHABLE


class NoBrokerAddressError(ClientError):
    """The routes have no address of a broker: it has not registered, or its registration expired."""


class UnreachableError(ClientError):
    """A server cannot be reached, or its connection ended before the answer.

    `sent` says whether the request was written to a connection: the server may have handled it then.
    """

    exit_code: ClassVar[int] = _UNREACHABLE

    def __init__(self, address: str, reason: str, *, sent: bool) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.sent = sent


class NoAnswerError(UnreachableError):
    """A server did not answer in time; it may have handled the request, or may still do so."""


class NoRoomError(ClientError):
    """Too much waits for answers, or for a server that reads slowly; nothing was sent."""


class RequestRefusedError(ClientError):
    """A server answered a request with a code other than 0."""

    def __init__(self, address: str, request: int, code: int, remark: str | None) -> None:
        super().__init__(_refusal(address, request, code, remark))
        self.address = address
        self.code = code
        self.remark = remark


def _refusal(address: str, request: int, code: int, remark: str | None) -> str:
    """Return the text of a refusal; of a code that the server does not know, the version that does."""
    text = f"{address}: request {code_name(request)} was answered with {code}: {remark}"
    if code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return text
    since = SINCE.get(request)
    return text if since is None else f"{text}; brokers of {since} or newer know it"

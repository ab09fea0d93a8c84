"""Errors of clients.

RocketMQ's source: client/exception/MQClientException.java, MQBrokerException.java.
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of the errors of clients; its text names the server, the topic or the option, and what to do."""


class ClientStateError(ClientError):
    """The client is not started, or closed already."""


class NoNameServerError(ClientError):
    """No NameServer of the list answered; a request to one may be repeated."""


class NoRouteError(ClientError):
    """The NameServers know no queue of a topic that the client may use."""


class NoBrokerAddressError(ClientError):
    """The routes have no address of a broker: it has not registered, or its registration expired."""


class UnreachableError(ClientError):
    """A server cannot be reached, or its connection ended before the answer.

    `sent` says whether the request was written to a connection: the server may have handled it then.
    """

    def __init__(self, address: str, reason: str, *, sent: bool) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.sent = sent


class NoAnswerError(UnreachableError):
    """A server did not answer in time; it may have handled the request, or may still do so."""


class RequestRefusedError(ClientError):
    """A server answered a request with a code other than 0."""

    def __init__(self, address: str, request: int, code: int, remark: str | None) -> None:
        super().__init__(f"{address}: request {request} was answered with {code}: {remark}")
        self.address = address
        self.code = code
        self.remark = remark

"""Errors of producers.

RocketMQ's source: client/impl/producer/DefaultMQProducerImpl.java (sendDefaultImpl), client/Validators.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rocketflow.client.errors import ClientError, RequestRefusedError, UnreachableError
from rocketflow_store.spi.messages import MessageRejectedError, PutMessageStatus, RocketFlowError


class BadMessageError(ClientError, MessageRejectedError):
    """A message, a topic or a group that brokers would refuse; nothing was sent."""

    exit_code: ClassVar[int] = 2

    def __init__(self, why: str) -> None:
        RocketFlowError.__init__(self, why)
        self.status, self.why, self.row = PutMessageStatus.MESSAGE_ILLEGAL, why, None


class NoReplyError(ClientError):
    """No reply to a request has come in time; its message is stored, and a consumer may still handle it."""

    exit_code: ClassVar[int] = 69


class SendFailedError(ClientError):
    """No attempt of a send was acknowledged.

    `failures` are those of the attempts, in order. `may_be_stored` says whether a broker may have stored the message
    all the same, because its answer is missing. `code` is that of the last answer, None where there was none.
    """

    exit_code: ClassVar[int] = 69

    def __init__(self, topic: str, failures: Sequence[ClientError]) -> None:
        attempts = "1 attempt" if len(failures) == 1 else f"{len(failures)} attempts"
        reasons = "; ".join(dict.fromkeys(map(str, failures)))
        super().__init__(f"topic {topic!r}: not acknowledged after {attempts}: {reasons}")
        self.topic = topic
        self.failures = tuple(failures)

    @property
    def may_be_stored(self) -> bool:
        """Return whether the message may be stored."""
        return any(isinstance(one, UnreachableError) and one.sent for one in self.failures)

    @property
    def code(self) -> int | None:
        """Return the code of the last answer."""
        return next((one.code for one in reversed(self.failures) if isinstance(one, RequestRefusedError)), None)


class SendRefusedError(SendFailedError):
    """Brokers answered all attempts of a send, and refused them: without permission (code 16) after the first."""

    exit_code: ClassVar[int] = 1


def send_failed(topic: str, failures: Sequence[ClientError]) -> SendFailedError:
    """Return the error of a send whose attempts have failed."""
    refused = all(isinstance(one, RequestRefusedError) for one in failures)
    return (SendRefusedError if refused else SendFailedError)(topic, failures)

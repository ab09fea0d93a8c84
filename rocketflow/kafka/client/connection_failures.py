"""The reasons why kafka-python could not connect: it retries until its timeout, and then raises only a timeout error.

The reason of each failed attempt goes only to kafka-python's log; this module keeps the last one. Rejected credentials
and an untrusted certificate cannot succeed on a retry: the first attempt then ends the connect, as in Kafka's Java
client, where `AuthenticationException` is fatal.
"""

from __future__ import annotations

import logging
import re
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG: Final = logging.getLogger("kafka.net.manager")
_REFUSED: Final = re.compile(r"(?P<sasl>Sasl\w*Error|\w*AuthenticationFailedError): (?P<why>.*?)( \(backoff .*)?$")
_HANDSHAKE: Final = re.compile(r"Handshake failed: (?P<why>.*?)( \(backoff .*)?$")
_BOOTSTRAP: Final = "Bootstrap connection to %s failed:"
"""The beginning of the log record that a client writes between two attempts, when no request is in flight."""
_FAILED: Final = re.compile(r"connection to \S+ failed: (?P<why>.*?)( \(backoff .*)?$")
_ENDED: Final = re.compile(r"disconnected|reset by peer|[Bb]roken pipe")


class ConnectionFailures(logging.Handler):
    """The reasons of failed connections, each "" without a failure.

    `refused` is the broker's answer to rejected credentials, `handshake` the TLS error, `last` the last error of any
    kind. `disconnected` is True once a broker closed a connection: a broker does so after a rejected login, and
    kafka-python drops the answer if both arrive together.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.refused = self.handshake = self.last = ""
        self.disconnected = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the reason in `record`. Raise errors that a retry cannot fix, which ends the client's attempts."""
        text = record.getMessage()
        refused, handshake, failed = _REFUSED.search(text), _HANDSHAKE.search(text), _FAILED.search(text)
        if failed is not None:
            self.last = failed["why"]
            self.disconnected = self.disconnected or _ENDED.search(failed["why"]) is not None
        if refused is not None:
            self.refused = refused["why"].removeprefix(f"{refused['sasl']}: ")
        elif handshake is not None:
            self.handshake = handshake["why"]
        if record.msg.startswith(_BOOTSTRAP) and isinstance(record.args, tuple):
            for error in record.args:
                if isinstance(error, Exception) and _is_final(error):
                    raise error


def _is_final(error: Exception) -> bool:
    """Return True if a retry must fail as well."""
    from kafka.errors import AuthorizationError, SaslAuthenticationFailedError

    if isinstance(error, (AuthorizationError, SaslAuthenticationFailedError)):
        return True
    return isinstance(error.__context__, ssl.SSLCertVerificationError)


@contextmanager
def connection_failures() -> Iterator[ConnectionFailures]:
    """Collect the connection failures of all clients in this block, without printing more log lines than before."""
    found = ConnectionFailures()
    level, propagate = _LOG.level, _LOG.propagate
    if not _LOG.isEnabledFor(logging.WARNING):
        _LOG.propagate = False
        _LOG.setLevel(logging.WARNING)
    _LOG.addHandler(found)
    try:
        yield found
    finally:
        _LOG.removeHandler(found)
        _LOG.setLevel(level)
        _LOG.propagate = propagate

"""Why kafka-python could not connect: it tries again until its time is up, and then says only that.

What a broker or TLS said to each try it tells its log alone; the last of that is kept here. A name and password that a
broker refused, and a certificate that nobody trusts, will not do the next time either: the first try ends it, as
Kafka's own clients have it (`AuthenticationException` is fatal to them).
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
"""How the record begins that a client writes between two tries, where nothing is under way any more."""
_FAILED: Final = re.compile(r"connection to \S+ failed: (?P<why>.*?)( \(backoff .*)?$")
_ENDED: Final = re.compile(r"disconnected|reset by peer|[Bb]roken pipe")


class ConnectionFailures(logging.Handler):
    """What went wrong, "" where nothing did.

    `refused` is what a broker said to a name and password, `handshake` what was wrong with TLS, `last` what came last.
    `disconnected`: a broker ended a connection. So it does behind a login that it refused, and kafka-python drops what
    was said where both arrive together.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.refused = self.handshake = self.last = ""
        self.disconnected = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a record says; raises what another try would not mend, which ends the client's tries."""
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
    """Whether the next try has to fail as well."""
    from kafka.errors import AuthorizationError, SaslAuthenticationFailedError

    if isinstance(error, (AuthorizationError, SaslAuthenticationFailedError)):
        return True
    return isinstance(error.__context__, ssl.SSLCertVerificationError)


@contextmanager
def connection_failures() -> Iterator[ConnectionFailures]:
    """What happens to connections of any client within; nothing more is printed for it than before."""
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

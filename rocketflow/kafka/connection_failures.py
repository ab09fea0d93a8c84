"""Why kafka-python could not connect: it tries again until its time is up, and then says only that.

What a broker or TLS said to each try it tells its log alone; the last of that is kept here.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG: Final = logging.getLogger("kafka.net.manager")
_REFUSED: Final = re.compile(r"(?P<sasl>Sasl\w*Error|\w*AuthenticationFailedError): (?P<why>.*?)( \(backoff .*)?$")
_HANDSHAKE: Final = re.compile(r"Handshake failed: (?P<why>.*?)( \(backoff .*)?$")
_FAILED: Final = re.compile(r"connection to \S+ failed: (?P<why>.*?)( \(backoff .*)?$")


class ConnectionFailures(logging.Handler):
    """What went wrong, "" where nothing did.

    `refused` is what a broker said to a name and password, `handshake` what was wrong with TLS, `last` what came last.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.refused = self.handshake = self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a record says."""
        text = record.getMessage()
        refused, handshake, failed = _REFUSED.search(text), _HANDSHAKE.search(text), _FAILED.search(text)
        if failed is not None:
            self.last = failed["why"]
        if refused is not None:
            self.refused = refused["why"].removeprefix(f"{refused['sasl']}: ")
        elif handshake is not None:
            self.handshake = handshake["why"]


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

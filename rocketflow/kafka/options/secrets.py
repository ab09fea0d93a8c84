"""Keep secrets of options out of everything that is printed: errors, tracebacks, log lines of every library.

At DEBUG kafka-python logs complete requests, including the one with the password; py4j logs every option that it
passes to Spark. A secret stays hidden until the process ends: client threads can log after a bridge has ended.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
import traceback
import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import RocketFlowError
from rocketflow.kafka.errors import KafkaRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

HIDDEN: Final = "***"
SECRET_NAME: Final = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|private|keystore[._]key|(api|access)[._]?key|basic[._]auth",
    re.IGNORECASE,
)
"""The names of options whose values are secret."""
_WITHIN: Final = re.compile(
    r"""\w*(?:passw|secret|token|credential|private|key)\w*\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""",
    re.IGNORECASE,
)
"""Secrets inside the value of a secret option, such as a login module's `password="..."`."""


class Secrets:
    """Texts that must not be shown, in all their escaped forms."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        for value in values:
            self.add(value)

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Secrets:
        """Collect the values of options with secret names, and the secrets inside such values."""
        found = cls()
        for name, value in options.items():
            if SECRET_NAME.search(name):
                found.add(value)
                for inner in _WITHIN.findall(value):
                    found.add(inner.strip("\"'"))
        return found

    def add(self, value: str) -> None:
        """Add a text to hide."""
        if value:
            raw = value.encode("utf-8", "surrogateescape")
            escaped = value.replace("\\", "\\\\")
            texts = {repr(value)[1:-1], repr(raw)[2:-1], json.dumps(value)[1:-1], urllib.parse.quote(value, safe="")}
            self._forms |= {value, escaped, escaped.replace("\n", "\\n"), *texts}

    def update(self, others: Secrets) -> None:
        """Add the texts that `others` hide."""
        self._forms |= others._forms

    def hide(self, text: str) -> str:
        """Return `text` with every secret replaced by `HIDDEN`."""
        for form in sorted(self._forms, key=len, reverse=True):
            text = text.replace(form, HIDDEN)
        return text


_of_process: Final = Secrets()
_installed: Final = threading.Lock()


def hide_in_logs(secrets: Secrets) -> None:
    """Hide these secrets from now on in all log lines and logged tracebacks of this process, of any logger."""
    _of_process.update(secrets)
    if not _installed.acquire(blocking=False):
        return
    made: Callable[..., logging.LogRecord] = logging.getLogRecordFactory()

    def without_secrets(*args: Any, **more: Any) -> logging.LogRecord:
        record = made(*args, **more)
        with contextlib.suppress(Exception):  # logging reports a message that does not fit its arguments
            text = record.getMessage()
            hidden = _of_process.hide(text)
            if hidden != text:
                record.msg, record.args = hidden, ()
        if record.exc_info and record.exc_info[0] is not None:
            text = "".join(traceback.format_exception(*record.exc_info))
            hidden = _of_process.hide(text)
            if hidden != text:
                record.exc_info, record.exc_text = None, hidden.rstrip("\n")
        return record

    logging.setLogRecordFactory(without_secrets)


@contextlib.contextmanager
def hidden_in_errors(secrets: Secrets) -> Iterator[None]:
    """Raise the errors of this block without secrets: a message is hidden, a chain that contains one is cut off."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if secrets.hide(text) != text:
            kind = type(error) if isinstance(error, RocketFlowError) else KafkaRefusedError
            raise kind(secrets.hide(text)) from None
        chain = "".join(traceback.format_exception(error))
        if secrets.hide(chain) != chain:
            raise error from None
        raise

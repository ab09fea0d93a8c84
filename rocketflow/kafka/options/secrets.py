"""Secrets of options, kept out of whatever is printed: errors, log lines of every library, tracebacks.

kafka-python logs whole requests at DEBUG, the one that holds the password too; py4j logs every option that it hands to
Spark. What a process was once told to hide it hides until it ends: threads of clients log behind a bridge's end.
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
"""Names of options whose values nobody is to see."""
_WITHIN: Final = re.compile(
    r"""\w*(?:passw|secret|token|credential|private|key)\w*\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""",
    re.IGNORECASE,
)
"""Secrets that a secret option's value has in it, as a login module's `password="..."`."""


class Secrets:
    """Texts that must not be seen, in every way in which they may be written."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        for value in values:
            self.add(value)

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Secrets:
        """The values of those options whose names say that they are secret, and what such a value has in it."""
        found = cls()
        for name, value in options.items():
            if SECRET_NAME.search(name):
                found.add(value)
                for inner in _WITHIN.findall(value):
                    found.add(inner.strip("\"'"))
        return found

    def add(self, value: str) -> None:
        """Hide a text too."""
        if value:
            raw = value.encode("utf-8", "surrogateescape")
            escaped = value.replace("\\", "\\\\")
            texts = {repr(value)[1:-1], repr(raw)[2:-1], json.dumps(value)[1:-1], urllib.parse.quote(value, safe="")}
            self._forms |= {value, escaped, escaped.replace("\n", "\\n"), *texts}

    def update(self, others: Secrets) -> None:
        """Hide what `others` hide too."""
        self._forms |= others._forms

    def hide(self, text: str) -> str:
        """`text` without any secret in it."""
        for form in sorted(self._forms, key=len, reverse=True):
            text = text.replace(form, HIDDEN)
        return text


_of_process: Final = Secrets()
_installed: Final = threading.Lock()


def hide_in_logs(secrets: Secrets) -> None:
    """From now on no log line of this process, whoever writes it, has one of these in it, nor has its traceback."""
    _of_process.update(secrets)
    if not _installed.acquire(blocking=False):
        return
    made: Callable[..., logging.LogRecord] = logging.getLogRecordFactory()

    def without_secrets(*args: Any, **more: Any) -> logging.LogRecord:
        record = made(*args, **more)
        with contextlib.suppress(Exception):  # a message that does not fit its arguments is logging's to tell of
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
    """An error of this block that has a secret in it, or in one behind it, leaves without it and those behind it."""
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

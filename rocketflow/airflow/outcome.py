"""The outcome of a `rocketflow` command for its task: done, findings, retry, or fail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

EXIT_BUSY: Final = 75
_FIRST_SIGNAL_CODE: Final = 128
FINDING_CODES: Final = frozenset({1, 3})
"""Exit codes that are no failure if a result was printed: findings; data lost or quarantined."""


class Verdict(Enum):
    """The consequence for the task."""

    DONE = "done"
    FINDINGS = "findings"
    RETRY = "retry"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """The end of a command: exit code (negative: the signal that killed it), JSON result, last line of stderr."""

    command: tuple[str, ...]
    code: int
    result: dict[str, Any] | None
    last_line: str = ""

    def verdict(self, accepted: Iterable[int] = ()) -> Verdict:
        """Judge the exit code; codes in `accepted` mean findings if a result was printed.

        A killed command (out of memory, machine shutdown) leaves no incomplete change, and can be retried.
        """
        if self.code == 0:
            return Verdict.DONE
        if self.code in frozenset(accepted) and self.result is not None:
            return Verdict.FINDINGS
        if self.code == EXIT_BUSY or self.code < 0 or self.code > _FIRST_SIGNAL_CODE:
            return Verdict.RETRY
        return Verdict.FAIL

    def describe(self, store: str) -> str:
        """Describe the end in one line with store and command."""
        how = f"was killed by signal {-self.code}" if self.code < 0 else f"ended with exit code {self.code}"
        if self.code == EXIT_BUSY:
            how += " (the store is locked by another process)"
        detail = f": {self.last_line}" if self.last_line else ""
        return f"store {store}: `{' '.join(self.command)}` {how}{detail}"


def json_result(lines: Iterable[str]) -> dict[str, Any] | None:
    """Return the last line that is a JSON object, or None."""
    for line in reversed(list(lines)):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    return None

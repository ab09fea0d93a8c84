"""What the end of a `rocketflow` command means for a task: done, findings, try again, or give up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

EXIT_BUSY: Final = 75
_FIRST_SIGNAL_CODE: Final = 128
FINDING_CODES: Final = frozenset({1, 3})
"""Codes that are an answer where a result comes with them: findings; data lost or quarantined."""


class Verdict(Enum):
    """What a task does."""

    DONE = "done"
    FINDINGS = "findings"
    AGAIN = "again"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended: its exit code (negative: the signal that killed it), its JSON result, its last words."""

    command: tuple[str, ...]
    code: int
    result: dict[str, Any] | None
    last_words: str = ""

    def verdict(self, accepted: Iterable[int] = ()) -> Verdict:
        """`accepted` are codes that are findings if a result was printed.

        A killed command (out of memory, a machine that stops) left nothing half done, and can be run again.
        """
        if self.code == 0:
            return Verdict.DONE
        if self.code in frozenset(accepted) and self.result is not None:
            return Verdict.FINDINGS
        if self.code == EXIT_BUSY or self.code < 0 or self.code > _FIRST_SIGNAL_CODE:
            return Verdict.AGAIN
        return Verdict.FAIL

    def describe(self, store: str) -> str:
        """One line that names store and command."""
        how = f"was killed by signal {-self.code}" if self.code < 0 else f"ended with {self.code}"
        if self.code == EXIT_BUSY:
            how += " (the store is in use)"
        said = f": {self.last_words}" if self.last_words else ""
        return f"store {store}: `{' '.join(self.command)}` {how}{said}"


def json_result(lines: Iterable[str]) -> dict[str, Any] | None:
    """The last line that is a JSON object, None without one."""
    for line in reversed(list(lines)):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    return None

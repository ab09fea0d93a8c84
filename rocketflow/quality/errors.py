"""Errors of the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.errors import RocketFlowError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class SuiteRefusedError(UsageError):
    """A suite cannot be used; everything that is wrong with it is named at once."""

    def __init__(self, suite: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        listed = "".join(f"\n  - {one}" for one in problems)
        things = "1 thing is" if len(problems) == 1 else f"{len(problems)} things are"
        super().__init__(f"suite {suite}: {things} wrong; correct the file and start again{listed}")


class BodySchemaError(UsageError):
    """A body schema or format cannot be used."""


class ValidatorError(RocketFlowError):
    """The validator itself failed: nothing of the batch was written."""


class QualityFailedError(RocketFlowError):
    """An expectation whose action is `fail` was not met: nothing of the batch was written."""

"""Errors of the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow.errors import RocketFlowError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


_PYTHON: Final = "An exception was thrown from the Python worker"


class SuiteRefusedError(UsageError):
    """A suite cannot be used; the error names everything that is wrong with it."""

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


def first_line(error: BaseException) -> str:
    """Return an error's first line; for a Java error the inner exception, for a Python worker's the one it raised."""
    lines = [one.strip() for one in str(error).splitlines() if one.strip()]
    if lines and lines[0].startswith(("An error occurred while calling", "MetricResolutionError: An error")):
        found = [one for one in lines if "Exception: " in one and "SparkException: Job aborted" not in one]
        lines = [found[-1].partition("Exception: ")[2]] if found else lines[1:]
    if any(_PYTHON in one for one in lines[:1]):
        raised = [one for one in lines if one.partition(":")[0].rpartition(".")[2].endswith(("Error", "Exception"))]
        lines = raised[-1:] or lines
    return lines[0][:300] if lines else type(error).__name__

"""How a file of `jobs/` begins: its stderr and its logging are what whoever submitted it asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.errors import RocketFlowError
from rocketflow.job_errors import exit_code_of
from rocketflow.logging_setup import set_up_logging
from rocketflow.stderr import own_stderr
from rocketflow.stdout import finished

if TYPE_CHECKING:
    from collections.abc import Callable


def run_job(main: Callable[[], int]) -> int:
    """Run a job's `main`; the exit code."""
    own_stderr()
    try:
        set_up_logging()
    except RocketFlowError as error:
        return exit_code_of(error)
    return finished(main())

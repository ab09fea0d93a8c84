"""How a file of `jobs/` begins: its stderr and its logging are what whoever submitted it asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocketflow.errors import RocketFlowError
from rocketflow.process.job_errors import exit_code_of
from rocketflow.process.logging_setup import set_up_logging
from rocketflow.process.stderr import is_submitted, own_stderr
from rocketflow.process.stdout import finished
from rocketflow.process.stop_signals import StoppedError, stop_in_order
from rocketflow.process.tied_process import tie_to

if TYPE_CHECKING:
    from collections.abc import Callable


def run_job(main: Callable[[], int]) -> int:
    """Run a job's `main`; the exit code.

    A job that `rocketflow submit` started stops when it is asked to, or when the JVM that started it dies; the command
    reports the stop.
    """
    own_stderr()
    try:
        set_up_logging()
    except RocketFlowError as error:
        return exit_code_of(error)
    if not is_submitted():
        return finished(main())
    stop_in_order()
    tie_to(os.getppid())
    try:
        return finished(main())
    except StoppedError as stopped:
        return 128 + stopped.number

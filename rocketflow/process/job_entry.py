"""The entry point of the files of `jobs/`: stderr, logging, stop signals and errors."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

from rocketflow.environment import DEBUG
from rocketflow.process.job_errors import exit_code_of
from rocketflow.process.logging_setup import set_up_logging
from rocketflow.process.stderr import is_submitted, own_stderr
from rocketflow.process.stdout import finished
from rocketflow.process.stop_signals import StoppedError, stop_in_order
from rocketflow.process.tied_process import tie_to

if TYPE_CHECKING:
    from collections.abc import Callable


def run_job(main: Callable[[], int]) -> int:
    """Run a job's `main` and return the exit code; an exception ends the job with one line on stderr.

    With ROCKETFLOW_DEBUG set, its traceback comes before that line. A job that `rocketflow submit` started stops on a
    stop signal, or when the JVM that started it dies; the command reports the stop.
    """
    own_stderr()
    try:
        set_up_logging()
        if is_submitted():
            stop_in_order()
            tie_to(os.getppid())
        code = main()
    except StoppedError as stopped:
        return 128 + stopped.number
    except Exception as error:
        if DEBUG.text():
            traceback.print_exc()
        code = exit_code_of(error)
    return finished(code)

"""How a file of `jobs/` begins: its stderr and its logging are what whoever submitted it asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rocketflow.errors import RocketFlowError
from rocketflow.logging_setup import set_up_logging
from rocketflow.printable import printable
from rocketflow.stderr import own_stderr

if TYPE_CHECKING:
    from collections.abc import Callable


def run_job(main: Callable[[], int]) -> int:
    """Run a job's `main`; the exit code."""
    own_stderr()
    try:
        set_up_logging()
    except RocketFlowError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    return main()

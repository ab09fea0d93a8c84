"""The command `rocketflow`: thin commands over the store and the jobs; whatever is heavy is imported inside them."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors become one line on stderr and an exit code."""
    from rocketflow.cli.app import run
    from rocketflow.cli.failures import report
    from rocketflow.stop_signals import StoppedError, stop_in_order

    stop_in_order()
    try:
        code = run(sys.argv[1:])
    except StoppedError as stopped:
        code = report(stopped)
    sys.exit(code)

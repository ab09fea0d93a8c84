"""The command `rocketflow`: thin commands over the store and the jobs; heavy modules are imported inside functions."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors become one line on stderr and an exit code."""
    from rocketflow.process.stdout import finished
    from rocketflow.process.stop_signals import StoppedError, stop_in_order

    stop_in_order()  # before the slow imports
    try:
        from rocketflow.cli.app import run

        code = run(sys.argv[1:])
    except StoppedError as stopped:
        from rocketflow.cli.shared.failures import report

        code = report(stopped)
    sys.exit(finished(code))

"""The command `rocketflow`: thin commands over the store and the jobs; whatever is heavy is imported inside them."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors become one line on stderr and an exit code."""
    from rocketflow.cli.app import run

    sys.exit(run(sys.argv[1:]))

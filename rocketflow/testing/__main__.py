"""Run a command with a NameServer and a broker: `python -m rocketflow.testing COMMAND...`.

The command finds the NameServer's address in NAMESRV_ADDR, which RocketMQ's clients read. Both servers stop after it;
its exit code is that of this command.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from rocketflow.environment import NAMESRV_ADDR
from rocketflow.errors import RocketFlowError
from rocketflow.process.child_process import run_child
from rocketflow.process.stop_signals import StoppedError, stop_in_order
from rocketflow.testing.cluster import start_cluster

_USAGE: Final = """\
usage: python -m rocketflow.testing COMMAND [ARGUMENT]...
Runs a command with NAMESRV_ADDR set to the address of a NameServer, at which a broker is registered.
Example: python -m rocketflow.testing mvn test"""


def main(arguments: list[str]) -> int:
    """Run a command beside both servers; return its exit code."""
    if arguments[:1] in ([], ["-h"], ["--help"]):
        print(_USAGE)
        return 0 if arguments else 2
    stop_in_order()
    try:
        with start_cluster() as cluster:
            code = run_child(arguments, {**os.environ, NAMESRV_ADDR.key: cluster.name_server_address}).returncode
    except StoppedError as stopped:
        print(f"error: {stopped}; both servers were stopped", file=sys.stderr)
        return 128 + stopped.number
    except RocketFlowError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

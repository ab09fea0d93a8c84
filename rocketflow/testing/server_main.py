"""The program of a server process for tests: `main` runs `namesrv` or `broker`; settings are `--set KEY=VALUE`."""

from __future__ import annotations

import os
import sys

from rocketflow.errors import RocketFlowError


def main() -> None:
    """Run the server that `sys.argv` names until a signal stops it; an error is one line and an exit code."""
    command, *words = sys.argv[1:]
    settings = dict(one.split("=", 1) for one in words[1::2])
    try:
        _run(command, settings)
    except RocketFlowError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _run(command: str, settings: dict[str, str]) -> None:
    if command == "namesrv":
        from rocketflow.namesrv.settings import load_namesrv_settings
        from rocketflow.servers import run_name_server

        run_name_server(load_namesrv_settings(None, settings, os.environ))
    else:
        from rocketflow.broker.settings import load_broker_settings
        from rocketflow.servers import run_broker

        run_broker(*load_broker_settings(None, settings, os.environ))

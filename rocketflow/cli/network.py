"""`rocketflow namesrv` and `rocketflow broker`: the servers, with RocketMQ's own flags."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from rocketflow.cli.shared.failures import EXIT_STOPPED
from rocketflow.environment import STATE_HOME
from rocketflow.errors import UsageError

_FILE = Annotated[Path | None, typer.Option("-c", "--configFile", metavar="FILE", help="A properties file.")]
_SET = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the file.")]
_PRINT = Annotated[bool, typer.Option("-p", "--printConfigItem", help="Print all settings and exit.")]
_PRINT_IMPORTANT = Annotated[
    bool, typer.Option("-m", "--printImportantConfig", help="Print the important settings and exit.")
]


_WAIT = Annotated[
    bool,
    typer.Option("--wait", help="Run it in the background; return once it serves, and print its address and process."),
]


def namesrv(
    config: _FILE = None,
    set_values: _SET = None,
    print_all: _PRINT = False,
    print_important: _PRINT_IMPORTANT = False,
    wait: _WAIT = False,
) -> None:
    """Run a NameServer until SIGTERM or Ctrl-C. Example: rocketflow namesrv --wait"""
    from rocketflow.namesrv.settings import load_namesrv_settings
    from rocketflow.servers import run_name_server

    settings = load_namesrv_settings(config, _settings(set_values), os.environ)
    if print_all or print_important:
        print(settings.properties_text() if print_all else settings.important_text(), end="")
        return
    if wait:
        _start_and_wait("namesrv", settings.listen_port, _words(config, set_values))
        return
    run_name_server(settings, config)


def broker(
    config: _FILE = None,
    name_servers: Annotated[
        str | None, typer.Option("-n", "--namesrvAddr", metavar="ADDR", help="NameServers: host:port;host:port.")
    ] = None,
    set_values: _SET = None,
    print_all: _PRINT = False,
    print_important: _PRINT_IMPORTANT = False,
    wait: _WAIT = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Example: rocketflow broker -c conf/broker.conf -n 127.0.0.1:9876 --wait"""
    from rocketflow.broker.settings import load_broker_settings, settings_text
    from rocketflow.servers import run_broker

    options = _settings(set_values)
    if name_servers is not None:
        options["namesrvAddr"] = name_servers
    settings, store_config, given = load_broker_settings(config, options, os.environ)
    if print_all or print_important:
        print(settings_text(settings, store_config, given, only_important=not print_all), end="")
        return
    if wait:
        words = _words(config, set_values) + ([] if name_servers is None else ["-n", name_servers])
        _start_and_wait("broker", settings.listen_port, words)
        return
    run_broker(settings, store_config, given, config)


def _settings(texts: list[str] | None) -> dict[str, str]:
    """Return the values of `--set KEY=VALUE` by key. Raises UsageError."""
    found = {}
    for text in texts or []:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"--set {text}: KEY=VALUE is expected")
        found[key.strip()] = value.strip()
    return found


def _words(config: Path | None, set_values: list[str] | None) -> list[str]:
    """Return the options of a server as words of a command line."""
    words = [] if config is None else ["-c", str(config)]
    return words + [word for one in set_values or [] for word in ("--set", one)]


def _start_and_wait(command: str, port: int, words: list[str]) -> None:
    """Start a server in the background; print its address and process once it serves. Raises typer.Exit."""
    from rocketflow.process.readiness import NotReadyError, start_and_wait

    state = STATE_HOME.directory()
    log = state / "rocketflow" / f"{command}-{port}.log"
    begin = log.stat().st_size if log.exists() else 0
    try:
        pid, address = start_and_wait([command, *words], log)
    except NotReadyError as error:
        with log.open("rb") as opened:
            opened.seek(begin)
            said = opened.read().decode("utf-8", "replace").strip()
        print(said or f"error: {error}; its log {log} is empty", file=sys.stderr)
        raise typer.Exit(error.code if error.code > 0 else EXIT_STOPPED - error.code) from None
    except OSError as error:
        raise UsageError(
            f"the log {log} of the server cannot be written ({error.strerror}): set XDG_STATE_HOME"
        ) from None
    print(f"ready: {address}, process {pid}, log {log}")

"""`rocketflow namesrv` and `rocketflow broker`: the servers, with RocketMQ's own flags."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rocketflow.errors import UsageError

_FILE = Annotated[Path | None, typer.Option("-c", "--configFile", metavar="FILE", help="A properties file.")]
_SET = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the file.")]
_PRINT = Annotated[bool, typer.Option("-p", "--printConfigItem", help="Print all settings and exit.")]
_PRINT_IMPORTANT = Annotated[
    bool, typer.Option("-m", "--printImportantConfig", help="Print the important settings and exit.")
]


def namesrv(
    config: _FILE = None, set_values: _SET = None, print_all: _PRINT = False, print_important: _PRINT_IMPORTANT = False
) -> None:
    """Run a NameServer until SIGTERM or Ctrl-C. Example: rocketflow namesrv -c conf/namesrv.conf"""
    from rocketflow.namesrv.settings import load_namesrv_settings
    from rocketflow.servers import run_name_server

    settings = load_namesrv_settings(config, _settings(set_values), os.environ)
    if print_all or print_important:
        print(settings.properties_text() if print_all else settings.important_text(), end="")
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
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Example: rocketflow broker -c conf/broker.conf -n 127.0.0.1:9876"""
    from rocketflow.broker.settings import load_broker_settings, settings_text
    from rocketflow.servers import run_broker

    options = _settings(set_values)
    if name_servers is not None:
        options["namesrvAddr"] = name_servers
    settings, store_config, given = load_broker_settings(config, options, os.environ)
    if print_all or print_important:
        print(settings_text(settings, store_config, given, only_important=not print_all), end="")
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

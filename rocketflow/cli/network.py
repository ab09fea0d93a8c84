"""`rocketflow namesrv` and `rocketflow broker`: the servers, with RocketMQ's own flags."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketflow.errors import AddressInUseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow.aio.loop import Service

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
    from rocketflow.namesrv.service import NameServer
    from rocketflow.namesrv.settings import load_namesrv_settings

    settings = load_namesrv_settings(config, _settings(set_values))
    if print_all or print_important:
        print(settings.properties_text(), end="")
        return
    server = NameServer(settings)
    _serve(server, lambda: f"the NameServer listens at {settings.bind_address}:{server.port}")


def _settings(texts: list[str] | None) -> dict[str, str]:
    """Return the values of `--set KEY=VALUE` by key. Raises UsageError."""
    found = {}
    for text in texts or []:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"--set {text}: KEY=VALUE is expected")
        found[key.strip()] = value.strip()
    return found


def _serve(service: Service, started: Callable[[], str]) -> None:
    """Run a server and print a line once it serves. Raises AddressInUseError."""
    from rocketflow.aio.loop import serve

    try:
        serve(service, lambda: print(started(), flush=True))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUseError(
                f"{error.strerror or error}: stop the process that listens there, or set listenPort"
            ) from None
        raise
    print("stopped", flush=True)

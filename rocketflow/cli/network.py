"""`rocketflow namesrv` and `rocketflow broker`: the servers, with RocketMQ's own flags."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketflow.errors import AddressInUseError, RocketFlowError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    import os

    from rocketflow.namesrv.service import NameServer
    from rocketflow.namesrv.settings import load_namesrv_settings

    settings = load_namesrv_settings(config, _settings(set_values), os.environ)
    if print_all or print_important:
        print(settings.properties_text() if print_all else settings.important_text(), end="")
        return
    server = NameServer(settings, config)
    ports = (settings.listen_port, settings.metrics_prom_exporter_port)
    _serve(server, lambda: f"the NameServer listens at {settings.bind_address}:{server.port}", ports)


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
    import os

    from rocketflow.broker.service import FAST_PORT_DISTANCE, Broker
    from rocketflow.broker.settings import load_broker_settings, settings_text

    options = _settings(set_values)
    if name_servers is not None:
        options["namesrvAddr"] = name_servers
    settings, store_config, given = load_broker_settings(config, options, os.environ)
    if print_all or print_important:
        print(settings_text(settings, store_config, given, only_important=not print_all), end="")
        return
    names = settings.namesrv_addr or "none"
    port = settings.listen_port
    _serve(
        Broker(settings, store_config, given, config),
        lambda: f"the broker {settings.broker_name} listens at {settings.broker_address} (NameServers: {names})",
        (port, port - FAST_PORT_DISTANCE, settings.metrics_prom_exporter_port),
    )


def _settings(texts: list[str] | None) -> dict[str, str]:
    """Return the values of `--set KEY=VALUE` by key. Raises UsageError."""
    found = {}
    for text in texts or []:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"--set {text}: KEY=VALUE is expected")
        found[key.strip()] = value.strip()
    return found


def _serve(service: Service, started: Callable[[], str], ports: Sequence[int]) -> None:
    """Run a server at its ports and print a line once it serves. Raises RocketFlowError."""
    from rocketflow.aio.loop import serve
    from rocketflow.aio.steps import UncleanStopError
    from rocketflow.process.port_holders import port_holder

    try:
        serve(service, lambda: print(started(), flush=True))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            holders = [one for port in ports if (one := port_holder(port))]
            raise AddressInUseError(
                f"{'; '.join([error.strerror or str(error), *holders])}: stop the process that listens there, or set "
                "listenPort (for figures: metricsPromExporterPort)"
            ) from None
        raise
    except UncleanStopError as error:
        raise RocketFlowError(str(error)) from None
    print("stopped", flush=True)

"""Run a NameServer or a broker in this process until a signal stops it: for the command line, and for tests of users.

It imports no command line, whose packages take a sixth of the time that a broker needs to start.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketflow.aio.loop import serve
from rocketflow.aio.steps import UncleanStopError
from rocketflow.errors import AddressInUseError, RocketFlowError
from rocketflow.process.port_holders import port_holder
from rocketflow.process.readiness import say_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow.aio.loop import Service
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.namesrv.settings import NamesrvSettings
    from rocketflow_store import StoreConfig


def run_name_server(settings: NamesrvSettings, config: Path | None = None) -> None:
    """Run a NameServer until SIGTERM or SIGINT; print a line once it serves, and one at its end.

    `config` is the file that `mqadmin updateNamesrvConfig` changes. Raises AddressInUseError, RocketFlowError.
    """
    from rocketflow.namesrv.service import NameServer

    server = NameServer(settings, config)
    ports = (settings.listen_port, settings.metrics_prom_exporter_port)
    _serve(server, lambda: f"the NameServer listens at {settings.bind_address}:{server.port}", ports)


def run_broker(
    settings: BrokerSettings, store_config: StoreConfig, given: dict[str, Any], config: Path | None = None
) -> None:
    """Run a broker until SIGTERM or SIGINT; print a line once it serves, and one at its end.

    The first three are what `load_broker_settings` returns; `config` is the broker's file. Raises AddressInUseError,
    RocketFlowError, StoreError.
    """
    from rocketflow.broker.operators import FAST_PORT_DISTANCE
    from rocketflow.broker.service import Broker

    names = settings.namesrv_addr or "none"
    port = settings.listen_port
    _serve(
        Broker(settings, store_config, given, config),
        lambda: f"the broker {settings.broker_name} listens at {settings.broker_address} (NameServers: {names})",
        (port, port - FAST_PORT_DISTANCE, settings.metrics_prom_exporter_port),
    )


def _serve(service: Service, started: Callable[[], str], ports: Sequence[int]) -> None:
    """Run a server at its ports; print a line once it serves, and say so to systemd. Raises RocketFlowError."""

    def is_ready() -> None:
        print(f"ready: {started()}", flush=True)
        say_ready(started())

    try:
        serve(service, is_ready)
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

"""Options of every client: the NameServers, and the settings of connections.

RocketMQ's source: client/ClientConfig.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow.aio.signing_hook import signing_hooks
from rocketflow.client.errors import ClientError, NameServerOptionError
from rocketflow.environment import NAMESRV_ADDR
from rocketflow.remoting.addresses import is_address
from rocketflow.remoting.rpc_hook import RpcHook
from rocketflow_store.spi.setting_rows import ValueNotAllowedError, option, rows_of

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls
    from rocketflow.remoting.signature import Credentials


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Options of a client; times are seconds. `rocketflow explain OPTION` says what each is about."""

    name_servers: str = option(
        "NameServers, host:port;host:port.", "", shown_default=f"{NAMESRV_ADDR.key} of the environment"
    )
    instance_name: str = option(
        "Part of the client's id, which is unique without it, and of the place of a broadcasting consumer's offsets.",
        "",
    )
    unit_name: str = option("A further such part.", "")
    timeout_s: float = option("Time that a server has to answer a request.", 3.0, "s")
    tls: Tls | None = option("TLS of all connections.", None)
    credentials: Credentials | None = option("Account that signs every request, after the hooks.", None)
    hooks: tuple[RpcHook, ...] = option(
        "Objects that run before every request, in their order, and after every answer.", (), shown_default="none"
    )
    route_refresh_s: float = option("Time between two looks at the routes of topics.", 30.0, "s")
    heartbeat_s: float = option("Time between two heartbeats.", 30.0, "s")

    def __post_init__(self) -> None:
        """Check the numbers. Raises ClientError that names the wrong one."""
        for row in rows_of(type(self)):
            value = getattr(self, row.field)
            try:
                row.check(value)
            except ValueNotAllowedError as error:
                raise ClientError(f"{row.key}={value}: {error}") from None

    def all_hooks(self) -> tuple[RpcHook, ...]:
        """Return the hooks in the order in which they run: the one that signs is the last."""
        return (*self.hooks, *signing_hooks(self.credentials))

    def addresses(self) -> list[str]:
        """Return the addresses of the NameServers. Raises NameServerOptionError for none, and for other texts."""
        text = self.name_servers or NAMESRV_ADDR.text()
        found = [one.strip() for one in text.replace(",", ";").split(";") if one.strip()]
        if not found:
            raise NameServerOptionError(f"no NameServer is given: set name_servers='host:port' or {NAMESRV_ADDR.key}")
        for one in found:
            if not is_address(one):
                raise NameServerOptionError(
                    f"{one!r} is no address of a NameServer: host:port is expected, 127.0.0.1:9876 for example"
                )
        return found

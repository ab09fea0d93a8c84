"""Options of every client: the NameServers, and the settings of connections.

RocketMQ's source: client/ClientConfig.java.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow.aio.signing_hook import signing_hooks
from rocketflow.client.errors import NameServerOptionError
from rocketflow.remoting.addresses import is_address
from rocketflow.remoting.rpc_hook import RpcHook

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls
    from rocketflow.remoting.signature import Credentials

NAME_SERVER_VARIABLE: Final = "NAMESRV_ADDR"


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Options of a client. Times are seconds.

    `name_servers` is `host:port;host:port`; NAMESRV_ADDR is used where it is empty. `hooks` run before every request,
    in their order, and after every answer; `credentials` sign every request after them. `tls` is that of all
    connections. `instance_name` and `unit_name` become part of the client's id, which is unique
    without them, and of the place of a broadcasting consumer's offsets.
    """

    name_servers: str = ""
    instance_name: str = ""
    unit_name: str = ""
    timeout_s: float = 3.0
    tls: Tls | None = None
    credentials: Credentials | None = None
    hooks: tuple[RpcHook, ...] = ()
    route_refresh_s: float = 30.0
    heartbeat_s: float = 30.0

    def all_hooks(self) -> tuple[RpcHook, ...]:
        """Return the hooks in the order in which they run: the one that signs is the last."""
        return (*self.hooks, *signing_hooks(self.credentials))

    def addresses(self) -> list[str]:
        """Return the addresses of the NameServers. Raises NameServerOptionError for none, and for other texts."""
        text = self.name_servers or os.environ.get(NAME_SERVER_VARIABLE, "")
        found = [one.strip() for one in text.replace(",", ";").split(";") if one.strip()]
        if not found:
            raise NameServerOptionError(
                f"no NameServer is given: set name_servers='host:port' or {NAME_SERVER_VARIABLE}"
            )
        for one in found:
            if not is_address(one):
                raise NameServerOptionError(
                    f"{one!r} is no address of a NameServer: host:port is expected, 127.0.0.1:9876 for example"
                )
        return found

"""A client for operators.

RocketMQ's source: tools/admin/DefaultMQAdminExt.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.client.admin.name_server_requests import NameServerRequests
from rocketflow.client.cluster import Cluster

if TYPE_CHECKING:
    from types import TracebackType

    from rocketflow.client.options import ClientOptions


class AdminClient(NameServerRequests):
    """Sends an operator's requests to the NameServers and brokers of a cluster.

    It is used as `async with AdminClient(options) as admin`. Calls raise ClientError: NoNameServerError and
    UnreachableError where no server answers, NoRouteError for a topic that no broker has registered, and
    RequestRefusedError where a server refuses a request.
    """

    def __init__(self, options: ClientOptions) -> None:
        super().__init__(Cluster(options))

    async def close(self) -> None:
        """End all connections."""
        await self.cluster.close()

    async def __aenter__(self) -> AdminClient:
        """Return the client; connections are opened when requests need them."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all connections."""
        await self.close()

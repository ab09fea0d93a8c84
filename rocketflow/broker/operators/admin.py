"""Requests of operators about figures.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rocketflow import __version__
from rocketflow.access.permissions import (
    CLUSTER_READ,
)
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.figures import NAMES
from rocketflow.remoting import bodies
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import VERSION
from rocketflow.remoting.headers import admin as headers

if TYPE_CHECKING:
    from rocketflow.broker.figures import FigureParts
    from rocketflow.broker.settings import BrokerSettings

VERSION_NAME: Final = "V5_3_3"


class Admin:
    """Requests 28 and 315."""

    def __init__(self, settings: BrokerSettings, figures: FigureParts) -> None:
        self._figures, self._stats = figures.runtime, figures.stats
        self._settings = settings
        self._started_ms = int(time.time() * 1000)

    @serves(RequestCode.VIEW_BROKER_STATS_DATA, CLUSTER_READ)
    def _get_counts(self, request: Request) -> None:
        """Answer with the counts of the last minute, hour and day under a name and a key (request 315)."""
        header = request.command.header(headers.ViewBrokerStatsDataRequestHeader)
        name, key = header.stats_name, header.stats_key
        if name not in NAMES:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{name}> are not counted by RocketFlow's broker; it counts {', '.join(NAMES)}",
            )
        found = self._stats.view(name, key)
        if found is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        request.reply(body=encode_body(found))

    @serves(RequestCode.GET_BROKER_RUNTIME_INFO, CLUSTER_READ)
    async def _get_runtime_info(self, request: Request) -> None:
        table = {
            **await self._figures.table(),
            "brokerVersionDesc": VERSION_NAME,
            "brokerVersion": str(VERSION),
            "rocketflowVersion": __version__,
            "bootTimestamp": str(self._started_ms),
            "startAcceptSendRequestTimeStamp": str(self._settings.start_accept_send_request_time_stamp),
            "brokerActive": "true",
        }
        request.reply(body=encode_body(bodies.KVTable(table=table)))

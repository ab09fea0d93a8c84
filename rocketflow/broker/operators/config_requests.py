"""Requests about the settings of a broker: 25 and 26.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java (updateBrokerConfig, getBrokerConfig).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rocketflow.access.permissions import CLUSTER_CHANGE, CLUSTER_READ
from rocketflow.access.served import serves
from rocketflow.aio.server import Request
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.admin import GetBrokerConfigResponseHeader

if TYPE_CHECKING:
    from rocketflow.broker.topics import Topics
    from rocketflow.process.live_settings import LiveSettings

_OF_TOPICS: Final = frozenset({"autoCreateTopicEnable", "brokerPermission"})
"""Keys that change which topics the broker registers, or with which permission."""


class ConfigRequests:
    """Shows the settings, and changes those that may be changed."""

    def __init__(self, live: LiveSettings, settings_text: Callable[[], str], topics: Topics) -> None:
        self._live = live
        self._settings_text = settings_text
        self._topics = topics

    @serves(RequestCode.GET_BROKER_CONFIG, CLUSTER_READ)
    def _get(self, request: Request) -> None:
        version = encode_body(self._topics.data_version).decode()
        request.reply(header=GetBrokerConfigResponseHeader(version=version), body=self._settings_text().encode())

    @serves(RequestCode.UPDATE_BROKER_CONFIG, CLUSTER_CHANGE)
    async def _change(self, request: Request) -> None:
        """Change settings; the NameServers know of a new permission before the answer, as of a new topic."""
        changed = await self._live.change(request.command.body, request.channel.address)
        if not _OF_TOPICS.isdisjoint(changed):
            await self._topics.settings_changed()
            await self._topics.registered()
        request.reply()

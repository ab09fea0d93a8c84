"""Calls to NameServers: the broker registers every 30 seconds and after a change, and unregisters when it stops.

A broker that starts before its NameServers asks them again soon, until one of them has taken its registration.

RocketMQ's source: broker/BrokerController.java (registerBrokerAll), broker/out/BrokerOuterAPI.java.
"""

from __future__ import annotations

import asyncio
import logging
import math
import zlib
from typing import TYPE_CHECKING, Final

from rocketflow.aio.channel import ChannelClosedError
from rocketflow.aio.peers import Peers
from rocketflow.aio.server import RefusedError
from rocketflow.aio.signing_hook import signing_hooks
from rocketflow.remoting.bodies import KVTable, decode_body, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.errors import BodyError
from rocketflow.remoting.headers.route import RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics.topics import Topics

LOG: Final = logging.getLogger("rocketflow.broker")

CHANGE_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.5
"""Time between registrations until a NameServer has taken the first."""

START_SECONDS: Final = 5.0
"""How long a start waits for the first answer of each NameServer; the broker registers again after it."""
UNREGISTER_SECONDS: Final = 1.2
_FAILURES: Final = (OSError, ChannelClosedError, TimeoutError)


class Registration:
    """Registers the broker at its NameServers."""

    def __init__(self, settings: BrokerSettings, topics: Topics, tls: Tls | None) -> None:
        self._settings = settings
        self._topics = topics
        self._peers = Peers(tls=tls, hooks=signing_hooks(settings.credentials))
        self._soon = asyncio.Event()
        self._taken = 0
        self._progress = asyncio.Condition()
        self._failing: set[str] = set()
        self._was_taken = not settings.name_servers
        self._keeping: asyncio.Task[None] | None = None
        self.was_tried = False
        """Whether a registration at all NameServers has ended, well or not."""

    async def start(self) -> None:
        """Register at all NameServers, and keep registered from then on."""
        await self._register_at_all(START_SECONDS)
        self._keeping = asyncio.get_running_loop().create_task(self._keep_registered())

    async def stop(self) -> None:
        """Unregister at all NameServers and end the connections."""
        if self._keeping is not None:
            self._keeping.cancel()
        await asyncio.gather(*(self._unregister(one) for one in self._settings.name_servers))
        await self._peers.close()

    def register_soon(self) -> None:
        """Register as soon as possible: the topics have changed."""
        self._soon.set()

    async def registered(self) -> None:
        """Wait until the NameServers have been sent the topics as they are now, at most CHANGE_SECONDS."""
        change = self._topics.changes
        try:
            async with asyncio.timeout(CHANGE_SECONDS), self._progress:
                await self._progress.wait_for(lambda: self._taken >= change)
        except TimeoutError:
            LOG.warning("a NameServer does not take new topics: clients find them later")

    async def _register_at_all(self, most_s: float = math.inf) -> None:
        """Register at all NameServers; failures are logged.

        Waits for each no longer than `registerBrokerTimeoutMills` and `most_s` seconds.
        """
        body = await asyncio.to_thread(self._body)
        timeout_s = min(most_s, self._settings.register_broker_timeout_mills / 1000)
        answers = await asyncio.gather(*(self._register(one, body, timeout_s) for one in self._settings.name_servers))
        self.was_tried = True
        taken = [one for one in answers if one is not None]
        self._was_taken = self._was_taken or bool(taken)
        if taken and taken[0]:
            await self._take_ordered(taken[0])

    async def _take_ordered(self, body: bytes) -> None:
        """Mark the topics that the first NameServer answers as ordered."""
        try:
            await self._topics.order(decode_body(body, KVTable).table)
        except (BodyError, RefusedError) as error:
            LOG.warning("the NameServer's table of ordered topics is not used: %s", error)

    def is_up(self) -> dict[str, bool]:
        """Return which NameServers took the last registration."""
        if not self.was_tried:
            return {}
        return {one: one not in self._failing for one in self._settings.name_servers}

    def _body(self) -> bytes:
        return encode_body({"filterServerList": [], "topicConfigSerializeWrapper": self._topics.wrapper()})

    async def _keep_registered(self) -> None:
        """Register after changes and at least every `registerNameServerPeriod`, until cancelled.

        Until a NameServer has taken the first registration, it is repeated every AGAIN_SECONDS.
        """
        period = max(10.0, min(60.0, self._settings.register_name_server_period / 1000))
        while True:
            try:
                async with asyncio.timeout(period if self._was_taken else AGAIN_SECONDS):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
            change = self._topics.changes
            await self._register_at_all()
            self._taken = change
            async with self._progress:
                self._progress.notify_all()

    async def _register(self, address: str, body: bytes, timeout_s: float) -> bytes | None:
        """Return the body of the answer, None if the NameServer did not take the registration."""
        settings = self._settings
        header = RegisterBrokerRequestHeader(
            broker_name=settings.broker_name,
            broker_addr=settings.broker_address,
            cluster_name=settings.broker_cluster_name,
            ha_server_addr=settings.ha_address,
            broker_id=settings.broker_id,
            enable_acting_master=False,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        try:
            answer = await self._peers.request(
                address, RequestCode.REGISTER_BROKER, header, body=body, timeout_s=timeout_s
            )
        except _FAILURES as error:
            self._report(address, str(error))
            return None
        if answer.code != ResponseCode.SUCCESS:
            self._report(address, f"answer {answer.code}: {answer.remark}")
            return None
        if address in self._failing:
            self._failing.discard(address)
            LOG.warning("NameServer %s took the registration again", address)
        return answer.body

    def _report(self, address: str, why: str) -> None:
        """Log the first of several failures in a row."""
        if address not in self._failing:
            self._failing.add(address)
            LOG.warning("NameServer %s did not take the registration (%s): it is repeated", address, why)

    async def _unregister(self, address: str) -> None:
        settings = self._settings
        header = UnRegisterBrokerRequestHeader(
            broker_name=settings.broker_name,
            broker_addr=settings.broker_address,
            cluster_name=settings.broker_cluster_name,
            broker_id=settings.broker_id,
        )
        try:
            await self._peers.request(address, RequestCode.UNREGISTER_BROKER, header, timeout_s=UNREGISTER_SECONDS)
        except _FAILURES as error:  # a NameServer that has stopped knows no broker any more
            level = logging.WARNING if isinstance(error, TimeoutError) else logging.INFO
            LOG.log(level, "NameServer %s did not take the farewell: %s", address, error)

"""Resets of a group's offsets by mqadmin, request 222 and RocketFlow's client, at Apache's brokers and RocketFlow's.

`mqadmin resetOffsetByTime -f false` skips messages at brokers that reset offsets themselves (5.3 with its default
`useServerSideResetOffset`): these ignore `isForce`. RocketFlow's client skips none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.admin.figures import offset_table
from rocketflow.client.push import ConsumeContext, ConsumeStatus
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.offset import ResetOffsetRequestHeader
from rocketflow_store import StoreConfig
from rocketflow_store.spi.messages import ReceivedMessage
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig
from tests.apache.mqadmin import mqadmin
from tests.support.pushing import Noted, committed, consuming, make_topic, operator, options, put, small_cluster, until
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.timeout(600)]

OWN: Final = "RocketFlow"
TOPIC: Final = "moved"
END_MS: Final = -1


class Place(NamedTuple):
    """A broker, and whether it sets offsets itself; others let the group's clients do it."""

    version: str
    is_server_side: bool = True


APACHE: Final = (Place("5.3.3"), Place("5.3.3", is_server_side=False), Place("4.9.7", is_server_side=False))
PLACES: Final = (Place(OWN), *(APACHE if LEVEL != "sample" else ()))
Offsets = Mapping[int, int]


@contextmanager
def place_of(place: Place, home: Path) -> Iterator[str]:
    """Run the servers; yield the NameServer's address."""
    if place.version == OWN:
        with small_cluster(home) as (names, _):
            yield names.address
        return
    conf = "" if place.is_server_side else "useServerSideResetOffset=false\n"
    config = StoreConfig(broker_name="broker-a", mapped_file_size_commit_log=1 << 24)
    with RealBroker(place.version, home / "store", config, home, conf, last=True) as broker:
        names_of_broker = f"127.0.0.1:{broker.names_port}"
        wait_for_a_broker(names_of_broker)
        yield names_of_broker


async def new_group(admin: AdminClient, names: str, group: str, offsets: Offsets) -> str:
    """Create a group that has committed these offsets, and return the broker's address."""
    (address,) = await admin.masters(TOPIC)
    await admin.create_group(address, SubscriptionGroupConfig(group_name=group))
    for queue_id, offset in offsets.items():
        await admin.commit_offset(address, group, MessageQueue(TOPIC, "broker-a", queue_id), offset)
    return address


async def offsets_of(names: str, group: str) -> dict[int, int]:
    return {queue.queue_id: offset for queue, offset in (await committed(names, group, TOPIC)).items()}


async def asked(admin: AdminClient, address: str, group: str) -> tuple[int, dict[int, int]]:
    """Send what mqadmin sends for `-s -1 -f false`; return the answer's code and offsets."""
    header = ResetOffsetRequestHeader(
        group=group, topic=TOPIC, queue_id=-1, offset=-1, timestamp=END_MS, is_force=False
    )
    reply = await admin.cluster.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    found = offset_table(reply.body) if reply.code == ResponseCode.SUCCESS else {}
    return reply.code, {queue.queue_id: offset for queue, offset in found.items()}


async def without_clients(names: str, place: Place) -> None:
    """Reset offsets of groups of which no client runs."""
    async with operator(names) as admin:
        address = await new_group(admin, names, "by-request", {0: 4, 1: 4})
        moved = {0: 10, 1: 10} if place.is_server_side else {0: 4, 1: 4}
        answer = (0, moved) if place.is_server_side else (ResponseCode.CONSUMER_NOT_ONLINE, {})
        assert await asked(admin, address, "by-request") == answer
        assert await offsets_of(names, "by-request") == moved

        await new_group(admin, names, "careful", {0: 4, 1: 4})
        kept = await admin.reset_offset_by_time("careful", TOPIC, END_MS)
        assert [*kept.values()] == [4, 4]
        assert await offsets_of(names, "careful") == {0: 4, 1: 4}
        await admin.reset_offset_by_time("careful", TOPIC, 0)
        assert await offsets_of(names, "careful") == {0: 0, 1: 0}
        await admin.reset_offset_by_time("careful", TOPIC, END_MS, force=True)
        assert await offsets_of(names, "careful") == {0: 10, 1: 10}

        await new_group(admin, names, "half", {0: 4})
        await admin.reset_offset_by_time("half", TOPIC, 0)
        assert await offsets_of(names, "half") == {0: 0, 1: 0}
        await admin.reset_queue_offset(address, "half", TOPIC, 0, 7)
        assert await offsets_of(names, "half") == {0: 7, 1: 0}
        await new_group(admin, names, "by-mqadmin", {0: 4, 1: 4})


class Gate(Noted):
    """A listener that waits with the second message of queue 0 until it may go on."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.is_open = asyncio.Event()

    async def _wait(self, message: ReceivedMessage, _context: ConsumeContext) -> ConsumeStatus | None:
        if message.queue_id == 0 and message.queue_offset > 0:
            await self.is_open.wait()
        return None

    def places(self) -> Counter[tuple[int, int]]:
        """Return how often each message came."""
        return Counter((one.queue_id, one.queue_offset) for one in self.messages)


@asynccontextmanager
async def half_way(names: str, group: str) -> AsyncIterator[Gate]:
    """Run a consumer that has committed queue 1 and the first message of queue 0, and holds the second one."""
    gate = Gate()
    async with consuming(options(names, group, orderly=True), gate, TOPIC):

        async def is_half_way() -> bool:
            return await offsets_of(names, group) == {0: 1, 1: 10} and gate.places()[0, 1] == 1

        await until(is_half_way)
        yield gate
        gate.is_open.set()


async def with_a_client(names: str, place: Place) -> None:
    """Reset offsets of groups of which a client runs."""
    async with operator(names) as admin:
        (address,) = await admin.masters(TOPIC)
        async with half_way(names, "asked") as gate:
            moved = {0: 10, 1: 10} if place.is_server_side else {0: 1, 1: 10}
            assert await asked(admin, address, "asked") == (0, moved)

        async with half_way(names, "one-queue") as gate:
            await admin.reset_queue_offset(address, "one-queue", TOPIC, 1, 6)
            gate.is_open.set()
            await put(names, TOPIC, ["later", "latest"], queues=2)  # ends the pulls that wait
            await until(lambda: gate.places()[0, 10] > 0 < gate.places()[1, 10] and gate.places()[1, 9] > 1)
            found = gate.places()
            assert {one for one in found if one[0] == 0} == {(0, offset) for offset in range(11)}
            again = {one: count for one, count in found.items() if one[0] == 1}
            assert again == {(1, offset): 1 + (6 <= offset < 10) for offset in range(11)}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.version}-{place.is_server_side}")
def test_reset_without_force_moves_offsets_forward_only_at_brokers_that_ignore_it(place: Place, tmp_path: Path) -> None:
    async def all_of_them(names: str) -> None:
        await make_topic(names, TOPIC, 2)
        await put(names, TOPIC, map(str, range(20)), queues=2)
        await without_clients(names, place)

    with place_of(place, tmp_path) as names:
        run(all_of_them(names))
        if LEVEL != "sample":
            words = ["resetOffsetByTime", "-n", names, "-g", "by-mqadmin", "-t", TOPIC, "-s", "-1", "-f", "false"]
            mqadmin(names, tmp_path / "tools", [words], "4.9.7" if place.version == "4.9.7" else "5.3.3")
            moved = {0: 10, 1: 10} if place.is_server_side else {0: 4, 1: 4}
            assert run(offsets_of(names, "by-mqadmin")) == moved
            run(with_a_client(names, place))

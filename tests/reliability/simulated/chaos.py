"""Faults that hit a simulated cluster at random; each heals by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tests.reliability.simulated.world import World

_SILENT: Final = 0.3
"""The share of kills of which the network says nothing."""

_HEALED_S: Final = 600.0
Fault = Callable[[World], Coroutine[Any, Any, None]]

CONSUMERS: Final = 3
_LONG_S: Final = 150.0
"""Longer than the 120 s after which servers abandon a silent peer."""


async def cut(world: World) -> None:
    """Reset up to three connections."""
    for _ in range(world.random.randrange(1, 4)):
        connections = world.network.connections()
        if connections:
            world.network.cut(world.random.choice(connections))


async def part(world: World) -> None:
    """Let nothing pass between two nodes for a while."""
    one, other = world.random.sample(world.alive(""), 2)
    world.network.part(one, other)
    await asyncio.sleep(_span(world, 40.0))
    world.network.join(one, other)


async def isolate(world: World) -> None:
    """Let nothing pass between a consumer and all brokers for a while."""
    if consumers := world.alive("consumer"):
        consumer, brokers = world.random.choice(consumers), world.alive("broker")
        for broker in brokers:
            world.network.part(consumer, broker)
        await asyncio.sleep(_span(world, 40.0))
        for broker in brokers:
            world.network.join(consumer, broker)


async def suspend(world: World) -> None:
    """Suspend a node for a while."""
    node = world.node(world.random.choice(world.alive("")))
    if not node.is_suspended:
        node.suspend()
        await asyncio.sleep(_span(world, 40.0))
        node.resume()


async def kill_broker(world: World) -> None:
    """Kill a broker, or take its machine's power away, and start it again."""
    await _kill_and_start(world, "broker", world.start_broker)


async def lose_power(world: World) -> None:
    """Take the power away from a broker's machine at the moment of an acknowledgement, and start it again."""
    place = await world.history.next_stored()
    await _kill_and_start(world, place.queue.broker_name, world.start_broker, silent=1.0)


async def kill_names(world: World) -> None:
    """Kill a NameServer, or take its machine's power away, and start it again."""
    await _kill_and_start(world, "names", world.start_name_server)


async def _kill_and_start(world: World, kind: str, start: Callable[[str], None], *, silent: float = _SILENT) -> None:
    if alive := world.alive(kind):
        name = world.random.choice(alive)
        world.kill(name, silently=world.random.random() < silent)
        await asyncio.sleep(_span(world, 40.0))
        start(name)


async def kill_consumer(world: World) -> None:
    """Kill a consumer; another one comes in its place."""
    if world.alive("consumer"):
        world.kill(world.random.choice(world.alive("consumer")), silently=world.random.random() < _SILENT)
        await asyncio.sleep(_span(world, 20.0))
        world.start_consumer()


async def stop_consumer(world: World) -> None:
    """Stop a consumer in order, and start another one."""
    consumers = [one for one in world.alive("consumer") if not world.node(one).is_suspended]
    if consumers:
        await world.stop(world.random.choice(consumers))
        await asyncio.sleep(_span(world, 20.0))
        world.start_consumer()


FAULTS: Final[tuple[Fault, ...]] = (
    *(cut, part, isolate, suspend, kill_broker, kill_names, kill_consumer, stop_consumer),
)
LOSING_POWER: Final[tuple[Fault, ...]] = (*FAULTS, lose_power, lose_power, lose_power)
KEEPING_LOCKS: Final[tuple[Fault, ...]] = (cut, part, isolate, suspend, kill_names, kill_consumer, stop_consumer)
"""Faults after which the broker still knows who has locked a queue."""


def _span(world: World, longest_s: float) -> float:
    """Return how long a fault lasts; one in five lasts until servers have abandoned its peers."""
    return _LONG_S if world.random.random() < 0.2 else world.random.uniform(0.1, longest_s)


async def afflict(world: World, faults: tuple[Fault, ...], seconds: float) -> int:
    """Let faults happen every few seconds, several at once too, for a time; return their number.

    At the end all of them have healed.
    """
    running: list[asyncio.Task[None]] = []
    end = world.loop.time() + seconds
    while world.loop.time() < end:
        await asyncio.sleep(world.random.uniform(1.0, 12.0))
        if faults:
            fault = world.random.choice(faults)
            world.history.note(f"fault {fault.__name__}")
            running.append(asyncio.create_task(fault(world)))
    async with asyncio.timeout(_HEALED_S):
        await asyncio.gather(*running)
    return len(running)

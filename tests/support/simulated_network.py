"""A simulated network: connections between nodes, with delays, parts of any size, cuts and silence.

`SimulatedNetwork` takes the place of the sockets of an event loop. Bytes arrive in order, in parts of random sizes,
after random delays. A connection may be cut: both ends get an error, and what is under way is lost. Two nodes may be
parted: nothing arrives until they are joined again, as with lost packets that TCP repeats. A killed node's connections
end as the kernel ends them; those of a machine without power stay silent.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.support.simulated_loop import TICK_S, Node, SimulatedLoop, current_node

WINDOW: Final = 128 * 1024
"""Bytes that the kernels of both ends hold; more of them wait in the writer."""

_DELAY_S: Final = (0.000_05, 0.003)
_SPLITS: Final = 0.1
"""The share of writes that arrive in parts."""


class Listener:
    """A listening socket."""

    def __init__(self, network: SimulatedNetwork, address: tuple[str, int]) -> None:
        self._network = network
        self._address = address
        self.waiting: deque[End] = deque()
        self.arrived = asyncio.Event()
        node = current_node()
        assert node is not None
        self.node = node

    def setblocking(self, flag: bool) -> None:
        """Do nothing: no call blocks."""

    def getsockname(self) -> tuple[str, int]:
        """Return the address."""
        return self._address

    def close(self) -> None:
        """End the listener, and the connections that were not accepted."""
        self._network.stop_listening(self)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class End(asyncio.Transport):
    """One end of a connection: a socket until a protocol takes it, a transport then."""

    def __init__(self, network: SimulatedNetwork, node: Node, address: tuple[str, int], peer: tuple[str, int]) -> None:
        super().__init__({"sockname": address, "peername": peer})
        self._network = network
        self._loop = network.loop
        self.node = node
        self.other: End | None = None
        self._protocol: asyncio.Protocol | None = None
        self._context: contextvars.Context = node.context
        self._received: deque[bytes] = deque()
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False
        self._has_ended = False
        self._under_way = 0
        self._last_arrival = 0.0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._writer_waits = False

    # --- a socket

    def fileno(self) -> int:
        """Return a small number: descriptors never run out."""
        return 10

    def getpeername(self) -> Any:
        """Return the address of the other end."""
        return self.get_extra_info("peername")

    def setsockopt(self, *option: int) -> None:
        """Do nothing."""

    # --- a transport

    def take(self, protocol: asyncio.Protocol) -> None:
        """Let a protocol have the connection."""
        self._protocol = protocol
        self._context = contextvars.copy_context()
        protocol.connection_made(self)
        self._soon(self._deliver)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        """Return whether the connection has ended, or ends."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Pass on what has arrived."""
        self._is_paused = False
        self._soon(self._deliver)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which the protocol pauses and goes on."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes for which the kernels have no room."""
        return max(0, self._under_way - WINDOW)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if self._is_closing or not data:
            return
        text = bytes(data)
        self._under_way += len(text)
        for part in self._network.parts(text):
            self._send(part)
        if not self._writer_waits and self.get_write_buffer_size() > self._high:
            self._writer_waits = True
            self.get_protocol().pause_writing()  # type: ignore[attr-defined]

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """End the connection; what was written still arrives."""
        if not self._is_closing:
            self._is_closing = True
            self._send(None)
            self._soon(self._lose, None)

    def abort(self) -> None:
        """End the connection at once."""
        if not self._is_closing:
            self._is_closing = True
            self._soon(self._lose, None)
        if self.other is not None:
            self._network.after_delay(self, self.other.reset)
            self.other = None

    # --- the network

    def reset(self) -> None:
        """End the connection with an error; what has arrived but was not read is lost."""
        self.other = None
        if not self._is_lost:
            self._is_closing = True
            self._received.clear()
            self._soon(self._lose, ConnectionResetError("the simulated connection was reset"))

    def die(self) -> None:
        """End the connection as the kernel does after a kill: what was written still arrives, then comes the end."""
        if not self._is_closing:
            self._is_closing = True
            self._send(None)
        self._is_lost = True

    def _send(self, part: bytes | None) -> None:
        self._last_arrival = max(self._last_arrival + TICK_S, self._loop.time() + self._network.delay())
        self._network.at(self._last_arrival, self, self._arrives, part)

    def _arrives(self, part: bytes | None) -> None:
        other = self.other
        if other is None:
            return
        if part is None:
            other.end_of_file()
        elif other.is_closing():
            other.abort_writer(self)
        else:
            other.receive(part)

    def abort_writer(self, writer: End) -> None:
        """Report to a writer that this end reads no more."""
        self._network.after_delay(self, writer.reset)

    def end_of_file(self) -> None:
        """Take note that the other end writes no more: protocols of this project end the connection then."""
        self._has_ended = True
        self._soon(self._deliver)

    def receive(self, part: bytes) -> None:
        """Take bytes of the other end."""
        self._received.append(part)
        self._soon(self._deliver)

    def was_read(self, size: int) -> None:
        """Take note that the other end has read bytes of this one."""
        self._under_way -= size
        if self._writer_waits and self.get_write_buffer_size() <= self._low:
            self._writer_waits = False
            if not self._is_lost:
                self.get_protocol().resume_writing()  # type: ignore[attr-defined]

    def _deliver(self) -> None:
        if self._protocol is None or self._is_lost:
            return
        while self._received and not self._is_paused:
            part = self._received.popleft()
            if self.other is not None:
                other = self.other
                self._network.after_delay(self, other.note_read, len(part))
            if not self._is_closing:
                self._protocol.data_received(part)
        if not self._received and self._has_ended and not self._is_closing:
            self._protocol.eof_received()
            self.close()

    def note_read(self, size: int) -> None:
        """Take note that the other end has read, in the context of this one."""
        self._soon(self.was_read, size)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._network.forget(self)
            if self._protocol is not None:
                self._protocol.connection_lost(error)

    def _soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._loop.call_soon(callback, *arguments, context=self._context)


class SimulatedNetwork:
    """All connections of a loop; `seed` decides delays and parts."""

    def __init__(self, loop: SimulatedLoop, seed: int) -> None:
        self.loop = loop
        self._random = random.Random(f"{seed} network")
        self._listeners: dict[int, Listener] = {}
        self._dark: set[Node] = set()
        self._ends: dict[End, None] = {}
        self._parted: set[frozenset[str]] = set()
        self._held: dict[frozenset[str], list[tuple[Callable[..., object], tuple[Any, ...]]]] = {}
        self._ports = iter(range(40_000, 1 << 30))

    # --- faults

    def connections(self) -> list[End]:
        """Return the ends of clients whose connections stand."""
        return [one for one in self._ends if one.other is not None and not one.is_closing()]

    def cut(self, end: End) -> None:
        """Reset a connection at both ends; what is under way is lost."""
        other = end.other
        end.reset()
        if other is not None:
            other.reset()

    def part(self, one: str, other: str) -> None:
        """Let nothing pass between two nodes, by their names."""
        self._parted.add(frozenset((one, other)))

    def join(self, one: str, other: str) -> None:
        """Let everything pass that waited between two nodes."""
        pair = frozenset((one, other))
        self._parted.discard(pair)
        for callback, arguments in self._held.pop(pair, []):
            self.loop.call_soon(callback, *arguments)

    def join_all(self) -> None:
        """Let everything pass."""
        for pair in list(self._parted):
            one, other = pair
            self.join(one, other)

    def kill(self, node: Node, *, silently: bool) -> None:
        """End the sockets of a killed process as its kernel does, or not at all: its machine has lost power."""
        if silently:
            self._dark.add(node)
            return
        for listener in list(self._listeners.values()):
            if listener.node is node:
                listener.close()
        for end in list(self._ends):
            if end.node is node:
                end.die()
                self.forget(end)

    # --- what ends call

    def delay(self) -> float:
        """Return how long something is under way."""
        return self._random.uniform(*_DELAY_S)

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Divide what was written at once."""
        if len(data) > 1 and self._random.random() < _SPLITS:
            at = self._random.randrange(1, len(data))
            yield data[:at]
            yield data[at:]
        else:
            yield data

    def at(self, when: float, sender: End, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something when it arrives at the other end, unless both nodes are parted then."""
        if sender.other is not None:
            nodes = sender.node, sender.other.node
            self.loop.call_at(when, self._pass, nodes, callback, arguments, context=_NO_NODE)

    def after_delay(self, sender: End, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something when a packet that is sent now arrives."""
        self.at(self.loop.time() + self.delay(), sender, callback, *arguments)

    def forget(self, end: End) -> None:
        """Take note that a connection has ended."""
        self._ends.pop(end, None)

    def stop_listening(self, listener: Listener) -> None:
        """Refuse further connections."""
        _, port = listener.getsockname()
        if self._listeners.get(port) is listener:
            del self._listeners[port]
            for end in listener.waiting:
                end.abort()

    def _pass(self, nodes: tuple[Node, Node], callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        pair = frozenset(one.name for one in nodes)
        if pair in self._parted:
            self._held.setdefault(pair, []).append((callback, arguments))
        elif self._dark.isdisjoint(nodes):
            callback(*arguments)

    # --- what the loop calls

    def listen(self, address: tuple[str, int], **options: object) -> Listener:
        """Listen at an address (`socket.create_server`)."""
        before = self._listeners.get(address[1])
        if before is not None:
            if before.node not in self._dark:
                raise OSError(errno.EADDRINUSE, "address already in use")
            self._wake(before.node)
        listener = self._listeners[address[1]] = Listener(self, address)
        return listener

    def _wake(self, node: Node) -> None:
        """Let a machine that was dark answer again: it knows nothing of its connections."""
        self._dark.discard(node)
        self.kill(node, silently=False)

    async def accept(self, listener: Listener) -> tuple[End, tuple[str, int]]:
        """Wait for a connection (`loop.sock_accept`)."""
        while not listener.waiting:
            listener.arrived.clear()
            await listener.arrived.wait()
        end = listener.waiting.popleft()
        return end, end.getpeername()

    async def connect_accepted(
        self, factory: Callable[[], asyncio.Protocol], end: End, **options: object
    ) -> tuple[End, asyncio.Protocol]:
        """Let a protocol have an accepted connection (`loop.connect_accepted_socket`)."""
        protocol = factory()
        end.take(protocol)
        return end, protocol

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, **options: object
    ) -> tuple[End, asyncio.Protocol]:
        """Connect to an address (`loop.create_connection`)."""
        node = current_node()
        assert node is not None, "a connection needs a node"
        await asyncio.sleep(2 * self.delay())
        listener = self._listeners.get(port)
        while listener is not None and (
            listener.node in self._dark or frozenset((node.name, listener.node.name)) in self._parted
        ):
            await asyncio.sleep(1.0)  # lost packets are sent again
            listener = self._listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"connection to {host}:{port} refused")
        address = ("127.0.0.1", next(self._ports))
        near = End(self, node, address, (host, port))
        far = End(self, listener.node, (host, port), address)
        near.other, far.other = far, near
        self._ends[near] = self._ends[far] = None
        listener.waiting.append(far)
        self.loop.call_soon(listener.arrived.set, context=listener.node.context)
        protocol = factory()
        near.take(protocol)
        return near, protocol


_NO_NODE: Final = contextvars.Context()


@contextmanager
def simulated_network(loop: SimulatedLoop, seed: int) -> Iterator[SimulatedNetwork]:
    """Let the loop's connections be simulated ones within the block."""
    network = SimulatedNetwork(loop, seed)
    create_server = socket.create_server
    socket.create_server = network.listen  # type: ignore[assignment]
    loop.sock_accept = network.accept  # type: ignore[assignment]
    loop.connect_accepted_socket = network.connect_accepted  # type: ignore[assignment]
    loop.create_connection = network.connect  # type: ignore[assignment]
    try:
        yield network
    finally:
        socket.create_server = create_server

"""A proxy between clients and a server that cuts connections after a number of bytes, and sends frames of its own."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress


class Between:
    """Passes connections on to a port of 127.0.0.1 and back.

    `bytes_until_cut` is asked for each connection after how many bytes from the server it is cut, None for never; with
    `counts_requests` the bytes to the server count too. `replaced` are texts of the server that clients see as others
    of the same length, addresses for example.
    """

    def __init__(
        self,
        port: int,
        *,
        bytes_until_cut: Callable[[], int | None] = lambda: None,
        counts_requests: bool = False,
        replaced: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self._port = port
        self._counts_requests = counts_requests
        self._bytes_until_cut = bytes_until_cut
        self._replaced = dict(replaced or {})
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """Return `host:port`, where clients connect."""
        return f"127.0.0.1:{self.port}"

    def send_to_clients(self, frame: bytes) -> None:
        """Write a frame to every client, as if the server sent it; the server must be silent meanwhile."""
        for one in self._clients:
            with suppress(OSError):
                one.sendall(frame)

    def cut_all(self) -> None:
        """End all connections."""
        for one in self._clients:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no further connection, and end all."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._port))
                except OSError:
                    client.close()
                    continue
                self._clients.append(client)
                left = _BytesLeft(self._bytes_until_cut())
                threading.Thread(target=self._forward, args=(client, server, left), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client, left), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, left: _BytesLeft) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(left.passed(data) if self._counts_requests else data)
                if left.are_none:
                    break
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket, left: _BytesLeft) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                for old, new in self._replaced.items():
                    data = data.replace(old, new)
                client.sendall(left.passed(data))
                if left.are_none:
                    break
        self.cuts += left.are_none
        self._clients.remove(client)
        for one in (client, server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class _BytesLeft:
    """The bytes of one connection until it is cut, of both directions; None for no cut."""

    def __init__(self, count: int | None) -> None:
        self._count, self._lock = count, threading.Lock()

    @property
    def are_none(self) -> bool:
        return self._count == 0

    def passed(self, data: bytes) -> bytes:
        """Return the bytes that pass before the cut."""
        with self._lock:
            if self._count is not None:
                data = data[: self._count]
                self._count -= len(data)
        return data


def place_of_a_cut(chance: random.Random) -> int:
    """Return after how many bytes to cut a connection that carries large frames: in small ones as often as in those."""
    return chance.choice((int(10 ** chance.uniform(0, 4)), chance.randrange(1, 10_000_000)))


@contextmanager
def between(
    names_port: int,
    broker_port: int,
    bytes_until_cut: Callable[[], int | None] = lambda: None,
    *,
    counts_requests: bool = False,
) -> Iterator[tuple[Between, Between]]:
    """Run proxies of a NameServer and its broker; its routes name the proxy of the broker."""
    broker = Between(broker_port, bytes_until_cut=bytes_until_cut, counts_requests=counts_requests)
    ports = {f":{broker_port}".encode(): f":{broker.port}".encode()}
    assert len(str(broker_port)) == len(str(broker.port)), "the frame keeps its length"
    names = Between(names_port, replaced=ports)
    try:
        yield names, broker
    finally:
        names.close()
        broker.close()

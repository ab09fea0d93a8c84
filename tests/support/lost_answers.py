"""A proxy between jobs and the broker of a store that drops answers to writes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from rocketflow_store.metadata.native.broker_file import read_broker_file, write_broker_file
from rocketflow_store.metadata.native.root_paths import RootPaths
from tests.support.servers import RunningServer, store_of


class DroppingProxy:
    """Passes connections on to a broker; ends `losses` of them when the answer to a write comes.

    The first `passed` answers arrive.
    """

    def __init__(self, broker: RunningServer, losses: int, passed: int = 0) -> None:
        self._broker, self.losses, self._passed = broker, losses, passed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._broker.port))
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
        server.close()

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), server.makefile("rb") as answers:
            for number, size in enumerate(iter(lambda: answers.read(4), b"")):
                frame = size + answers.read(int.from_bytes(size, "big"))
                if number == 1 and self._passed:  # the first answer says which store it is
                    self._passed -= 1
                elif number == 1 and self.losses:
                    self.losses -= 1
                    break
                client.sendall(frame)
        client.shutdown(socket.SHUT_RDWR)
        client.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # ends the pending accept
        self._listener.close()


@contextmanager
def answers_lost(broker: RunningServer, losses: int, passed: int = 0) -> Iterator[DroppingProxy]:
    """Let jobs reach the broker only through a proxy that drops answers."""
    proxy, file = DroppingProxy(broker, losses, passed), RootPaths(store_of(broker)).broker_file
    known = read_broker_file(file)
    assert known is not None
    write_broker_file(file, replace(known, address=proxy.address))
    try:
        yield proxy
    finally:
        write_broker_file(file, known)
        proxy.close()

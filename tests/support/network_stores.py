"""A NameServer with brokers over stores that were written before, for reads over the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rocketflow_store import Message, MessageStore, StoreConfig
from tests.support.servers import RunningServer, running, running_broker, wait_for_a_broker

SIZES = StoreConfig(mapped_file_size_commit_log=16 << 20, max_hash_slot_num=1000, max_index_num=4000)
"""File sizes of `running_broker`."""


def write(home: Path, messages: Sequence[Message]) -> Path:
    """Append to the store of the broker that will run in `home`; return the store's directory."""
    with MessageStore.open(home / "store", SIZES) as store:
        for result in store.put_messages(list(messages)):
            assert result.stored, result
    return home / "store"


class Brokers:
    """A NameServer, and brokers by name; each can be stopped and started again at its port."""

    def __init__(self, home: Path, names: RunningServer) -> None:
        self.home, self.names = home, names
        self._stack: dict[str, ExitStack] = {}
        self.running: dict[str, RunningServer] = {}
        self._ports: dict[str, int] = {}

    @property
    def address(self) -> str:
        """The address of the NameServer."""
        return self.names.address

    def store(self, name: str) -> Path:
        """Return the store's directory of a broker."""
        return self.home / name / "store"

    def start(self, name: str, *settings: str) -> RunningServer:
        """Start a broker, at the port that it had before."""
        stack = ExitStack()
        options = (f"brokerName={name}", f"namesrvAddr={self.address}", *settings)
        found = stack.enter_context(running_broker(self.home / name, *options, port=self._ports.get(name, 0)))
        self._stack[name], self.running[name], self._ports[name] = stack, found, found.port
        wait_for_a_broker(self.address)
        return found

    def start_again(self, name: str, *settings: str) -> RunningServer:
        """Start a broker that was killed."""
        self._stack.pop(name).close()
        return self.start(name, *settings)

    def stop(self, name: str) -> None:
        """Stop a broker in order."""
        self._stack.pop(name).close()
        del self.running[name]

    def stop_all(self) -> None:
        """Stop all brokers."""
        for name in list(self._stack):
            self.stop(name)


@contextmanager
def brokers(home: Path) -> Iterator[Brokers]:
    """Run a NameServer, and stop the brokers that were started at the end of the block."""
    with running("namesrv", home / "names") as names:
        found = Brokers(home, names)
        try:
            yield found
        finally:
            found.stop_all()

"""Small stores for tests of the Spark side, written by the real engine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.metadata.layout.file_sizes import config_for_store

SMALL_FILES = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 20 * 100,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}


def small_config(path: Path) -> StoreConfig:
    """Return a configuration with file sizes so small that tests cross file boundaries."""
    return StoreConfig(**SMALL_FILES) if not path.exists() else config_for_store(path, **SMALL_FILES)


def append(path: Path, messages: Iterable[Message]) -> None:
    """Append to the store at `path`, created if missing, and close it."""
    with MessageStore.open(path, small_config(path)) as store:
        for result in store.put_messages(list(messages)):
            assert result.stored, result


def numbered(topic: str, numbers: Iterable[int], queues: int = 4, label: str = "") -> list[Message]:
    """Return messages with their number as body, spread over queues; tags a/b in turn, key k<number % 10>."""
    return [
        Message(
            topic=topic,
            body=f"{label}{number}".encode(),
            tags="ab"[number % 2],
            keys=[f"k{number % 10}"],
            properties={"n": str(number)},
            queue_id=number % queues,
        )
        for number in numbers
    ]


def remove_first_log_file(path: Path) -> None:
    """Delete the oldest CommitLog file, as retention does."""
    min(path.joinpath("commitlog").iterdir(), key=lambda one: one.name).unlink()

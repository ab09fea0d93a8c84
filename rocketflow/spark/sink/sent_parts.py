"""A task's rows, encoded and sent to the broker that will commit them while more of them come."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from rocketflow.remoting.headers.rocketflow import UNKNOWN_SIZE, StagePartRequestHeader
from rocketflow.spark.sink.remote_store import RemoteStore
from rocketflow_store import StoreConfig
from rocketflow_store.spi.records import BatchEncoder
from rocketflow_store.spi.staging import StagedPart, write_part

if TYPE_CHECKING:
    from rocketflow.remoting.store_bodies import StoreInfoBody
    from rocketflow.spark.sink.batch_identity import BatchIdentity
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow_store.spi.records import EncodedChunk

PIECE_BYTES: Final = 4 << 20
"""Bytes of a part that one request carries."""

Encoded = Callable[[BatchEncoder], Iterable["EncodedChunk"]]


class Pieces:
    """Divides the bytes of a part into pieces, which `send` gets with their position and the part's size.

    A piece is sent when bytes after it have come; only the last one says the size, the others UNKNOWN_SIZE.
    """

    def __init__(self, send: Callable[[bytes, int, int], object], piece_bytes: int = PIECE_BYTES) -> None:
        self._send, self._position = send, 0
        self._piece = memoryview(bytearray(piece_bytes))
        self._size = 0

    def add(self, data: memoryview) -> None:
        """Take the next bytes."""
        while len(data):
            if self._size == len(self._piece):
                self._send(bytes(self._piece), self._position, UNKNOWN_SIZE)
                self._position += self._size
                self._size = 0
            count = min(len(data), len(self._piece) - self._size)
            self._piece[self._size : self._size + count] = data[:count]
            self._size += count
            data = data[count:]

    def end(self) -> None:
        """Send the last piece."""
        self._send(bytes(self._piece[: self._size]), self._position, self._position + self._size)


def send_part(
    options: SinkOptions, address: str, batch: BatchIdentity, encoded: Encoded, name: str
) -> tuple[int, StagedPart]:
    """Encode rows and send them; return the number of the run, and the part by its name at the broker."""
    assert options.network is not None
    store = RemoteStore(options.network, address)
    queues: dict[str, int] = {}

    def queue_count(topic: str) -> int:
        if topic not in queues:
            queues[topic] = store.queues_to_write(topic) or options.queues
        return queues[topic]

    with store.connected():
        begin = StagePartRequestHeader(sink_id=batch.sink_id, batch_id=batch.batch_id, run_id=batch.run_id)
        run_seq = store.stage(begin)
        file = f"{name}-{uuid.uuid4().hex[:12]}"

        def send(piece: bytes, position: int, size: int) -> None:
            store.stage(msgspec.structs.replace(begin, file=file, position=position, size=size), piece)

        config = _encoding(options.store_config(), store.info())
        encoder = BatchEncoder(config, queue_count, default_topic=options.topic, row_hashes=True)
        pieces = Pieces(send)
        part = write_part(encoded(encoder), pieces.add)
        pieces.end()
    return run_seq, replace(part, path=file)


def _encoding(config: StoreConfig, info: StoreInfoBody) -> StoreConfig:
    """Return the settings for encoding records for the broker's store."""
    host = info.store_host or config.store_host
    return replace(config, enabled_append_prop_crc=info.property_crc, store_host=host)

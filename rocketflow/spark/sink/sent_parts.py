"""A task's rows, encoded in a file of the task's machine and sent to the broker that will commit them."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.spark.sink.remote_store import RemoteStore
from rocketflow_store import StoreConfig
from rocketflow_store.spi.records import BatchEncoder
from rocketflow_store.spi.staging import StagedPart, stage

if TYPE_CHECKING:
    from rocketflow.remoting.store_bodies import StoreInfoBody
    from rocketflow.spark.sink.batch_identity import BatchIdentity
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow_store.spi.records import EncodedChunk

_IN_MEMORY: Final = 32 << 20
"""Bytes of a part that need no file."""

Encoded = Callable[[BatchEncoder], Iterable["EncodedChunk"]]


def send_part(
    options: SinkOptions, address: str, batch: BatchIdentity, encoded: Encoded, name: str
) -> tuple[int, StagedPart]:
    """Encode rows and send them; return the number of the run, and the part by its name at the broker."""
    assert options.network is not None
    store = RemoteStore(options.network, address)
    run_seq = store.begin(batch.sink_id, batch.batch_id, batch.run_id)
    queues: dict[str, int] = {}

    def queue_count(topic: str) -> int:
        if topic not in queues:
            queues[topic] = store.queues_to_write(topic) or options.queues
        return queues[topic]

    config = _encoding(options.store_config(), store.info())
    encoder = BatchEncoder(config, queue_count, default_topic=options.topic, row_hashes=True)
    with tempfile.TemporaryDirectory(prefix="rocketflow-") as home:
        part = stage(encoded(encoder), Path(home) / "parts" / "sink" / "batch", name, _IN_MEMORY)
        file = f"{name}-{uuid.uuid4().hex[:12]}"
        return run_seq, store.send(batch.sink_id, batch.batch_id, batch.run_id, part, file)


def _encoding(config: StoreConfig, info: StoreInfoBody) -> StoreConfig:
    """Return the settings for encoding records for the broker's store."""
    host = info.store_host or config.store_host
    return replace(config, enabled_append_prop_crc=info.property_crc, store_host=host)

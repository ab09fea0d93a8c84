"""A replay of one store's records into a new store, with their timestamps and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store import MessageStore, StoreConfig
from rocketflow_store.format.record import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_CRC_SIZE,
    SIZE_AND_MAGIC,
    RecordFields,
    decode_record,
)
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message_id import encode_host

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def records_of(log: Path) -> Iterator[bytes]:
    """Yield the raw records of a CommitLog directory, in order."""
    for file in sorted(log.iterdir()):
        data = file.read_bytes()
        position = 0
        while position + 8 <= len(data):
            size, magic = SIZE_AND_MAGIC.unpack_from(data, position)
            if magic == BLANK_MAGIC or magic not in (MAGIC_V1, MAGIC_V2):
                break
            yield data[position : position + size]
            position += size


def replay(golden: Path, path: Path, config: StoreConfig) -> int:
    """Put every record of `golden` into a new store at `path`; return their number."""
    from dataclasses import replace

    clock = ManualClock(0)
    count = 0
    with MessageStore.open(path, replace(config, clock=clock)) as store:
        for raw in records_of(golden / "commitlog"):
            message = decode_record(raw)
            size = int.from_bytes(raw[:4], "big")
            topic = message.topic.encode()
            length_size = 1 if SIZE_AND_MAGIC.unpack_from(raw)[1] == MAGIC_V1 else 2
            properties_at = (
                raw.index(len(topic).to_bytes(length_size, "big") + topic, 88 + len(message.stored_body))
                + length_size
                + len(topic)
                + 2
            )
            properties = raw[properties_at:size]
            if config.enabled_append_prop_crc:
                properties = properties[:-PROPERTY_CRC_SIZE]
            clock.set(message.store_timestamp)
            result = store.put_record(
                RecordFields(
                    topic=topic,
                    queue_id=message.queue_id,
                    body=message.stored_body,
                    properties=properties,
                    flag=message.flag,
                    sys_flag=message.sys_flag,
                    born_timestamp=message.born_timestamp,
                    born_host=encode_host(message.born_host),
                    store_host=encode_host(message.store_host),
                    reconsume_times=message.reconsume_times,
                    prepared_transaction_offset=message.prepared_transaction_offset,
                )
            )
            assert result.physical_offset == message.phy_offset, result
            count += 1
    return count

"""One message as a chunk to commit: for reports that a job writes with the rows that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rocketflow_store.format.properties import encode_properties
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message_id import UNIQ_KEYS, encode_host
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.index_entries import index_entries
from rocketflow_store.records.encoding.encode import EncodedChunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.settings.store_config import StoreConfig


def encode_message(
    config: StoreConfig, topic: str, body: bytes, properties: Mapping[str, str], *, born_ms: int, property_crc: bool
) -> EncodedChunk:
    """Encode a message with TAGS and KEYS for queue 0 of a topic, also a system topic; UNIQ_KEY is added."""
    uniq_key, host = UNIQ_KEYS.next(), encode_host(config.store_host)
    tag, keys = properties["TAGS"], properties["KEYS"]
    record = RecordFields(
        topic=topic.encode(),
        queue_id=0,
        body=body,
        properties=encode_properties({**properties, "UNIQ_KEY": uniq_key}),
        flag=0,
        sys_flag=0,
        born_timestamp=born_ms,
        born_host=host,
        store_host=host,
    )
    data = encode_record(record, 0, 0, 0, property_crc)
    codes = np.zeros(1, np.int32)
    tags = _column(tag)
    return EncodedChunk(
        data=pa.py_buffer(data),
        starts=np.zeros(1, np.int64),
        sizes=np.array([len(data)], np.int64),
        topics=[topic],
        topic_codes=codes,
        queue_ids=np.zeros(1, np.int32),
        tags_codes=np.array([string_hash(tag)], np.int64),
        entries=index_entries([topic], codes, _column(uniq_key), _column(keys), string_hashes(tags)),
        property_crc=property_crc,
    )


def _column(text: str) -> pa.Array:
    return pa.array([text], pa.binary())

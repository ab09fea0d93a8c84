"""Columns of the source (of a message that is read) and of the sink (of a row to be written).

The Arrow types are exactly those Spark derives for the same Spark types, so that a batch needs no cast.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

BODY_ERROR: Final = "bodyError"
"""Why a body is as it is stored, because it cannot be decoded; null for all other messages."""

SOURCE_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("body", pa.binary()),
        ("tags", pa.string()),
        ("keys", pa.string()),
        ("uniqKey", pa.string()),
        ("msgId", pa.string()),
        ("flag", pa.int32()),
        ("sysFlag", pa.int32()),
        ("bornTimestamp", _TIMESTAMP),
        ("bornHost", pa.string()),
        ("storeTimestamp", _TIMESTAMP),
        ("storeHost", pa.string()),
        ("reconsumeTimes", pa.int32()),
        ("preparedTransactionOffset", pa.int64()),
        ("bodyCRC", pa.int32()),
        ("storeSize", pa.int32()),
        ("physicalOffset", pa.int64()),
        ("brokerName", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        (BODY_ERROR, pa.string()),
    ]
)
SOURCE_COLUMNS: Final[tuple[str, ...]] = tuple(SOURCE_SCHEMA.names)
DEFAULT_COLUMNS: Final[tuple[str, ...]] = SOURCE_COLUMNS[:-2]

SINK_COLUMNS: Final[tuple[str, ...]] = (
    "body",
    "topic",
    "tags",
    "keys",
    "properties",
    "queueId",
    "shardingKey",
    "flag",
    "delayTimeLevel",
    "deliverTimestamp",
    "bornTimestamp",
)


def source_schema(columns: tuple[str, ...] | list[str]) -> pa.Schema:
    """Return the schema of a projection, in the requested order; raise UnknownColumnError for an unknown name."""
    from rocketflow_store.model.errors import UnknownColumnError

    for name in columns:
        if name not in SOURCE_COLUMNS:
            raise UnknownColumnError(name, SOURCE_COLUMNS)
    return pa.schema([SOURCE_SCHEMA.field(name) for name in columns])

"""Options of the sink, parsed once, and the checks of a query's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rocketflow.spark.shared.network_options import NETWORK_OPTIONS, Network, parse_network
from rocketflow.spark.shared.option_table import option_row
from rocketflow.spark.shared.option_values import OptionError, OptionValues
from rocketflow.spark.shared.store_locations import given_settings, parse_stores
from rocketflow_store import (
    FlushDiskType,
    MessageRejectedError,
    StoreConfig,
    StoreConfigError,
    StoreError,
    UnknownColumnError,
)
from rocketflow_store.spi.commits import check_sink_id
from rocketflow_store.spi.names import check_send_topic
from rocketflow_store.spi.records import SINK_COLUMNS, SOURCE_COLUMNS
from rocketflow_store.spi.setting_rows import Kind, nearest_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SINK_OPTIONS: Final = (
    option_row(
        "path",
        "Store to write to, created if it does not exist; all executors must see it.",
        form="directory",
        shown_default="required, or namesrvAddr",
    ),
    option_row(
        "namesrvAddr",
        "NameServers of the brokers to write to over the network instead of `path`; needs the extra `broker`.",
        form="host:port, several separated by ;",
    ),
    option_row(
        "brokerName",
        "Broker of RocketFlow whose store batches are committed to; needed if several brokers are registered.",
        form="NAME",
        shown_default="the only broker",
    ),
    *NETWORK_OPTIONS,
    option_row("topic", "Topic of all rows; wins over a column `topic`, which rows need without it.", form="TOPIC"),
    option_row(
        "sinkId",
        "Name under which batches are committed: each batch id of a sink is stored once. Give one that outlives a "
        "checkpoint; a batch of a new checkpoint under an old name is refused. Queries only.",
        form="NAME",
        shown_default="the id of the query",
    ),
    option_row(
        "txnId", "Name of a batch write (`df.write`): it is stored once, however often it is repeated.", form="NAME"
    ),
    option_row(
        "queues", "Queues of a topic that the sink creates.", 8, kind=Kind.COUNT, bounds=(1, 65_536), form="1 to 65536"
    ),
    option_row(
        "flushDiskType",
        "Whether a commit returns after a sync; this option alone decides, not the setting in `config`.",
        FlushDiskType.SYNC_FLUSH,
        choices=("SYNC_FLUSH", "ASYNC_FLUSH"),
    ),
    option_row(
        "directIO",
        "Whether rows bypass the page cache: faster where new memory is expensive (up to 1.6 times in some virtual "
        "machines), but readers of the batch find it on disk, not in memory. Without effect beside a broker.",
        kind=Kind.FLAG,
        shown_default="setting rocketflow.directIO",
    ),
    option_row(
        "replayMismatch",
        "What happens if Spark repeats a committed batch with other rows: fail, or, if their number is the same, keep "
        "the committed ones.",
        "error",
        choices=("error", "skip"),
    ),
    option_row(
        "lockTimeout",
        "Longest wait for a store that another process has locked; RocketFlow's broker commits at once.",
        60_000,
        kind=Kind.DURATION,
        shown_default="60s",
    ),
    option_row(
        "config",
        "File with settings of the store, read by the driver; environment variables ROCKETFLOW_* win over it, options "
        "over both.",
        form="broker.conf",
    ),
)

_ALLOWED_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "queueId": ("int",),
    "shardingKey": ("string",),
    "flag": ("int",),
    "delayTimeLevel": ("int",),
    "deliverTimestamp": ("timestamp",),
    "bornTimestamp": ("timestamp",),
}


_ONLY_READ: Final = frozenset(SOURCE_COLUMNS) - frozenset(SINK_COLUMNS)
"""Columns of the source that the store sets, so that a row cannot set them."""


class SinkSchemaError(StoreError):
    """The query's columns are not those that the sink accepts."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a sink. `sink_id` is None if the query's own id is used."""

    path: str
    """The store's directory; "" for a sink over the network."""
    network: Network | None
    broker_name: str | None
    topic: str | None
    sink_id: str | None
    txn_id: str | None
    queues: int
    flush_disk_type: FlushDiskType
    direct_io: bool | None
    """None applies the setting rocketflow.directIO."""
    replay_mismatch: str
    lock_timeout_ms: int
    checkpoint_location: str | None
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings of environment and broker.conf by key, as the driver read them."""

    def store_config(self) -> StoreConfig:
        """Return the settings to open the store with; the sink's own options win."""
        given = StoreConfig.from_mapping(dict(self.settings))
        direct = given.direct_io if self.direct_io is None else self.direct_io
        return replace(given, flush_disk_type=self.flush_disk_type, direct_io=direct)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Parse the options that Spark passes; OptionError names the wrong one."""
        values = OptionValues(options, SINK_OPTIONS)
        values.check_known()
        network = parse_network(values)
        path = "" if network is not None else _path(values)
        topic = values.text("topic")
        try:
            if topic is not None:
                check_send_topic(topic)
            sink_id, txn_id = values.text("sinkId"), values.text("txnId")
            for name, one in (("sinkId", sink_id), ("txnId", txn_id)):
                try:
                    if one is not None:
                        check_sink_id(one)
                except StoreConfigError as error:
                    raise OptionError(name, f"option {name}={one!r}: {error.why}") from error
        except MessageRejectedError as error:
            raise OptionError("topic", f"option topic={topic!r}: {error.why}") from error
        return cls(
            path=path,
            network=network,
            broker_name=values.text("brokerName"),
            topic=topic,
            sink_id=sink_id,
            txn_id=txn_id,
            queues=values.value("queues"),
            flush_disk_type=values.value("flushDiskType"),
            direct_io=values.value("directIO"),
            replay_mismatch=values.value("replayMismatch"),
            lock_timeout_ms=values.value("lockTimeout"),
            checkpoint_location=values.text("checkpointLocation"),
            settings=given_settings(values),
        )

    @property
    def is_synced(self) -> bool:
        """True if a commit is on the disk before it returns."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    def check_schema(self, schema: StructType) -> None:
        """Raise for an unknown column, a wrong column type, a missing body, or rows without a topic."""
        names = {field.name for field in schema.fields}
        read_only = [field.name for field in schema.fields if field.name in _ONLY_READ]
        if read_only:
            kept = ", ".join(f'"{field.name}"' for field in schema.fields if field.name in SINK_COLUMNS)
            error = UnknownColumnError(read_only[0], SINK_COLUMNS)
            error.args = (
                f"the store sets {', '.join(read_only)} of each message, a row cannot set them: "
                f"write df.select({kept}) instead (queueId keeps each row in its original queue)",
            )
            raise error
        for field in schema.fields:
            if field.name not in SINK_COLUMNS:
                nearest = nearest_name(field.name, SINK_COLUMNS)
                error = UnknownColumnError(field.name, SINK_COLUMNS)
                if nearest:
                    error.args = (f"{error.args[0]} (did you mean {nearest}?)",)
                raise error
            actual = field.dataType.simpleString()
            if actual not in _ALLOWED_TYPES[field.name]:
                allowed = " or ".join(_ALLOWED_TYPES[field.name])
                raise SinkSchemaError(
                    f"column {field.name} is {actual}; the sink takes {allowed}: cast it in the query"
                )
        if "body" not in names:
            raise SinkSchemaError("no column body: the sink needs one (binary or string)")
        if "topic" not in names and self.topic is None:
            raise SinkSchemaError("no topic: give a column topic or the option topic")


def _path(values: OptionValues) -> str:
    """Return the directory of the one store to write to."""
    path = values.text("path")
    if path is None:
        raise OptionError("path", "option path is required: the store directory to write to; or namesrvAddr")
    if "brokerName" in values:
        raise OptionError("brokerName", "option brokerName is for access by namesrvAddr, not by path")
    store, *more = parse_stores(path)
    if more or store.name:
        raise OptionError("path", f"option path={path!r}: a sink writes to one store: give its directory")
    return store.path

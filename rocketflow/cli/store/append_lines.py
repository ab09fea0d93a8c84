"""`store append`: JSON lines in, one outcome a line out. Refused lines are reported, all others appended."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.shared.input_lines import (
    body_field,
    json_fields,
    keys_field,
    lines_as_they_come,
    opened_input,
    properties_field,
    time_field,
    typed,
)
from rocketflow.errors import UsageError
from rocketflow.process.stop_signals import stop_waits

if TYPE_CHECKING:
    from rocketflow_store import Message, PutMessageResult, StoreConfig

_BATCH: Final = 256
_FIELDS: Final = {
    "body", "bodyBase64", "tags", "keys", "properties", "queueId", "delayTimeLevel", "deliverTimestamp", "flag",
    "shardingKey", "bornTimestamp",
}  # fmt: skip


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store append": {
        "status": "RocketMQ's PutMessageStatus",
        "topic": "topic",
        "queueId": "queue",
        "queueOffset": "queue offset",
        "physicalOffset": "offset in the CommitLog, bytes",
        "msgId": "RocketMQ's offset message id",
        "line": "of a refused line: its number in the input, from 1",
        "error": "of a refused line: why",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def append_lines(
    path: str,
    topic: str,
    queue: int | None,
    source: str,
    sync: bool,
    config: StoreConfig | None = None,
    *,
    create: bool = False,
    in_sum: bool = False,
) -> int:
    """Append every line of `source`; return the number of refused lines.

    Prints an object for each line, or with `in_sum` one line for all. Lines that arrive together are put in one batch,
    and no line waits for a later one.
    """
    from rocketflow_store import FlushDiskType, MessageRejectedError, MessageStore, StoreConfig
    from rocketflow_store.spi.names import check_send_topic

    try:
        check_send_topic(topic)
    except MessageRejectedError as error:
        raise UsageError(f"--topic: {error.why}") from error
    if not create:
        _check_exists(path, config)
    flush = FlushDiskType.SYNC_FLUSH if sync else FlushDiskType.ASYNC_FLUSH
    settings = replace(config or StoreConfig(), flush_disk_type=flush)
    refused = number = 0
    outcomes = Outcomes(in_sum)
    with opened_input(source) as opened, MessageStore.open(path, settings) as store:
        batch: list[tuple[int, Message]] = []
        for lines in lines_as_they_come(opened.read1):
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                try:
                    batch.append((number, parse_line(line, topic, queue)))
                except (ValueError, RecursionError) as error:
                    refused += _flush(store, batch, outcomes)
                    outcomes.refused(number, "nested too deeply" if isinstance(error, RecursionError) else str(error))
                    refused += 1
                if len(batch) >= _BATCH:
                    refused += _flush(store, batch, outcomes)
            refused += _flush(store, batch, outcomes)
            sys.stdout.flush()
    if in_sum:
        print(f"{topic}: {outcomes.count} messages stored" + (f", {refused} not" if refused else ""))
    return refused


def _check_exists(path: str, config: StoreConfig | None) -> None:
    """Raise UsageError if an append would create a store; the open raises if the path holds something else."""
    from rocketflow_store.spi.places import is_store

    root = Path(path)
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        if is_store(root.absolute(), config):
            return  # its CommitLog is in other directories
        raise UsageError(f"{path} holds no store: check the path, or create one there with --create")


class Outcomes:
    """Prints what became of each line, or counts it with `in_sum`; refused lines are also named on stderr."""

    def __init__(self, in_sum: bool) -> None:
        self._in_sum = in_sum
        self.count = 0

    def stored(self, result: PutMessageResult) -> None:
        """Take note of a message that was stored."""
        self.count += 1
        self._print(
            {
                "status": result.status.name,
                "topic": result.topic,
                "queueId": result.queue_id,
                "queueOffset": result.queue_offset,
                "physicalOffset": result.physical_offset,
                "msgId": result.msg_id,
            }
        )

    def refused(self, number: int, why: str, status: str = "MESSAGE_ILLEGAL") -> None:
        """Take note of a line that was not."""
        self._print({"status": status, "line": number, "error": why})
        print(f"error: line {number}: {why}", file=sys.stderr)

    def _print(self, fields: dict[str, Any]) -> None:
        if not self._in_sum:
            print(json.dumps(fields))


def _flush(store: Any, batch: list[tuple[int, Message]], outcomes: Outcomes) -> int:
    """Put the collected messages with one flush; print the outcomes in order."""
    if not batch:
        return 0
    refused = 0
    with stop_waits():
        results: list[PutMessageResult] = store.put_messages([message for _, message in batch])
    for (number, _), result in zip(batch, results, strict=True):
        if not result.stored:
            refused += 1
            outcomes.refused(number, result.why, result.status.name)
        else:
            outcomes.stored(result)
    batch.clear()
    return refused


def parse_line(line: bytes, topic: str, queue: int | None) -> Message:
    """Return the message of one JSON line; raise ValueError if it is invalid."""
    from rocketflow_store import Message

    fields = json_fields(line, _FIELDS)
    return Message(
        topic=topic,
        body=body_field(fields),
        tags=typed(fields, "tags", str),
        keys=keys_field(fields),
        properties=properties_field(fields),
        queue_id=typed(fields, "queueId", int) if fields.get("queueId") is not None else queue,
        sharding_key=typed(fields, "shardingKey", str),
        flag=typed(fields, "flag", int) or 0,
        born_timestamp=time_field(fields, "bornTimestamp"),
        delay_level=typed(fields, "delayTimeLevel", int) or 0,
        deliver_at_ms=time_field(fields, "deliverTimestamp"),
    )

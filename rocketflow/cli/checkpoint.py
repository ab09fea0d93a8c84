"""`rocketflow checkpoint`: where a query's checkpoint goes on, and a reset of it by time or offset."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketflow.cli.shared.parameters import QUEUE_BOUNDS, JsonOption, emit, time_argument
from rocketflow.cli.shared.tables import print_table
from rocketflow.process.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.spark.source.batch_log import BatchLog
    from rocketflow.spark.source.checkpoint_reset import CheckpointQueues
    from rocketflow.spark.source.stream_offset import QueueKey

checkpoint_app = typer.Typer(
    help="Show where a Spark query's checkpoint goes on, and reset it by time or offset.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_CheckpointArgument = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpoint directory, on this machine.")
]
_OptionOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="K=V", help="An option of the source, such as credentialsFile or config."),
]
_SOURCE_HELP: Final = "Store directory that the query reads, or NAME=DIRECTORY,..., or NameServers: host:port"


_CHECKPOINT: Final = {
    "checkpoint": "the checkpoint",
    "queryId": "id of the query",
    "committedBatch": "newest batch that has ended; null before the first",
    "plannedBatch": "batch that was planned and has not ended; null without one",
    "resetWaits": "whether that batch is a reset, which the next run does",
    "queues": "queues of the checkpoint",
    "queues.store": "name of the store, or of the broker; empty for one store without a name",
    "queues.topic": "topic",
    "queues.queueId": "queue",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "checkpoint show": {
        **_CHECKPOINT,
        "queues.nextOffset": "offset at which the next batch begins; null for a first batch, whose begin is not stored",
        "queues.plannedOffset": "offset at which the planned batch ends; null without one",
        **{f"queues.{name}": f"{about}; null without --source" for name, about in QUEUE_BOUNDS.items()},
        "queues.lag": "messages from nextOffset on; null without --source",
    },
    "checkpoint reset": {
        **_CHECKPOINT,
        "batch": "the batch that is the reset",
        "executed": "whether it was done (--yes)",
        "file": "the file that was added; null without --yes",
        "queues.from": "offset at which the next batch begins now; null if it is not stored",
        "queues.to": "offset at which it begins after the reset; null for a queue that is dropped",
        "queues.difference": "messages forward, negative backward; null if one of both is",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@checkpoint_app.command()
def show(
    checkpoint: _CheckpointArgument,
    source: Annotated[
        str | None, typer.Option("--source", metavar="PATH|ADDR", help=f"{_SOURCE_HELP}; adds ends and lag.")
    ] = None,
    option: _OptionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the offset at which a query goes on in each queue. Example: rocketflow checkpoint show /data/checkpoint

    A batch that was planned and has not ended is repeated by the next run: it begins at `next` and ends at `planned`.
    """
    from rocketflow.spark.source.batch_log import read_batch_log

    log = read_batch_log(checkpoint)
    queues = None if source is None else _queues(log, source, option)
    rows = _rows(log, queues)
    if as_json:
        emit({**_head(checkpoint, log), "queues": rows})
        return
    _print_head(log)
    columns = ["queue", "next"]
    columns += ["planned"] if log.planned is not None and not log.waits else []
    columns += [] if queues is None else ["begin", "end", "lag"]
    names = {"next": "nextOffset", "planned": "plannedOffset", "begin": "minOffset", "end": "maxOffset", "lag": "lag"}
    print_table(columns, ([_name(row), *(row[names[one]] for one in columns[1:])] for row in rows))


@checkpoint_app.command()
def reset(
    checkpoint: _CheckpointArgument,
    source: Annotated[str, typer.Option("--source", metavar="PATH|ADDR", help=f"{_SOURCE_HELP}.")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The first message of each queue.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end of each queue.")] = False,
    to_time: Annotated[
        int | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            parser=time_argument,
            help="The first message stored at or after this time, ISO 8601 or ms; without one the queue's end.",
        ),
    ] = None,
    to_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--to-offset",
            metavar="TOPIC:QUEUE=N",
            help="This offset of one queue (-2 earliest, -1 latest); repeatable.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable.")
    ] = None,
    option: _OptionOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Reset; without it the plan is printed and nothing changes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a reset of a stopped query's positions changes; do it with --yes.

    Example: rocketflow checkpoint reset /data/checkpoint --source /data/store --to-time 2026-01-31T12:00:00 --yes

    Queues that are not named keep their position; new queues begin at their first message, as ever. The reset is one
    more batch without rows, in a file of its own: the query's next run ends it and goes on at the new positions. A
    batch that was planned and has not ended is dropped. Until that run, deleting the printed file undoes the reset.

    Stop the query first. Spark keeps no lock, so a running query is not noticed: it fails at its next batch, and its
    next run begins at the reset. State of the query (duplicates, aggregates, the watermark) is kept.
    """
    from rocketflow.errors import UsageError
    from rocketflow.spark.source.batch_log import read_batch_log
    from rocketflow.spark.source.checkpoint_reset import check_resettable, parse_offsets, reset_choice
    from rocketflow_store.spi.settings import SystemClock

    offsets = parse_offsets(to_offset or ())
    choice = reset_choice(earliest=to_earliest, latest=to_latest, time_ms=to_time, offsets=offsets)
    if offsets and topic:
        raise UsageError("--to-offset names its topics: give it without --topic")
    log = read_batch_log(checkpoint)
    check_resettable(log)
    queues = _queues(log, source, option)
    moves = queues.moves(choice, topic or (), offsets)
    wanted = queues.offset_of(moves)
    file = log.append(wanted, SystemClock().now_ms()) if yes else None
    rows: list[dict[str, Any]] = [
        {
            **_key_fields(one.key),
            "from": one.before,
            "to": one.after,
            "difference": None if None in (one.before, one.after) else (one.after or 0) - (one.before or 0),
        }
        for one in moves
    ]
    if as_json:
        done = {"batch": log.newest + 1, "executed": yes, "file": None if file is None else str(file)}
        emit({**_head(checkpoint, log), **done, "queues": rows})
    else:
        _print_head(log)
        columns = ("from", "to", "difference")
        print_table(("queue", *columns), ([_name(row), *(row[one] for one in columns)] for row in rows))
        if file is None:
            print("nothing was changed: add --yes to reset (stop the query first)")
        else:
            print(f"reset: the next run goes on there; undo it until then: rm {printable(str(file))}")
    for name in sorted({one.qualified_topic for one in queues.unknown}):
        ids = ", ".join(str(one.queue_id) for one in queues.unknown if one.qualified_topic == name)
        print(
            f"note: topic {printable(name)} queue {ids}: not in the checkpoint, read from the beginning",
            file=sys.stderr,
        )
    if any(one.after is None for one in moves):
        print("note: queues without a new offset have no messages (any more); the reset drops them", file=sys.stderr)


def _queues(log: BatchLog, source: str, given: Sequence[str] | None) -> CheckpointQueues:
    from rocketflow.process.arguments import key_values
    from rocketflow.spark.shared.store_locations import source_place
    from rocketflow.spark.source.checkpoint_reset import CheckpointQueues

    return CheckpointQueues(log, {**key_values("--option", given or ()), **source_place(source)})


def _head(checkpoint: str, log: BatchLog) -> dict[str, Any]:
    from rocketflow.spark.shared.checkpoint import query_id

    return {
        "checkpoint": checkpoint,
        "queryId": query_id(checkpoint),
        "committedBatch": log.committed,
        "plannedBatch": None if log.planned is None else log.newest,
        "resetWaits": log.waits,
    }


def _print_head(log: BatchLog) -> None:
    ended = "no batch has ended" if log.committed is None else f"batch {log.committed} has ended"
    if log.waits:
        print(f"{ended}; a reset waits for the next run (batch {log.newest})")
    elif log.planned is not None:
        print(f"{ended}; batch {log.newest} is planned and has not ended")
    else:
        print(ended)


def _key_fields(key: QueueKey) -> dict[str, Any]:
    return {"store": key.store, "topic": key.topic, "queueId": key.queue_id}


def _name(row: dict[str, Any]) -> str:
    store = f"{row['store']}/" if row["store"] else ""
    return f"{store}{row['topic']}:{row['queueId']}"


def _rows(log: BatchLog, queues: CheckpointQueues | None) -> list[dict[str, Any]]:
    planned = {} if log.planned is None or log.waits else log.planned.positions
    rows: list[dict[str, Any]] = []
    names = list(log.starts())
    for at, (key, position) in enumerate((log.starts() if queues is None else queues.starts).items()):
        begin = None if position is None else position.next_offset
        end = planned.get(names[at])
        bounds = None if queues is None else queues.bounds.get(key)
        low, high = (None, None) if bounds is None else bounds
        lag = None if begin is None or high is None or low is None else max(high - max(begin, low), 0)
        row = {"nextOffset": begin, "plannedOffset": None if end is None else end.next_offset}
        rows.append({**_key_fields(key), **row, "minOffset": low, "maxOffset": high, "lag": lag})
    return sorted(rows, key=lambda row: (row["store"], row["topic"], row["queueId"]))

"""`rocketflow bridge`: topics between Kafka and a store. The bridge itself parses the options (`--help`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

if TYPE_CHECKING:
    from rocketflow_store import StoreReader

bridge_app = typer.Typer(
    help="Copy topics between Apache Kafka and a store, exactly once.", no_args_is_help=True, rich_markup_mode=None
)
_MOST = (1 << 63) - 1
_AS_THEY_COME = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


FIELDS: Final[dict[str, dict[str, str]]] = {
    "bridge offset-map": {
        "found": "whether the store has the message, or one after it",
        "exact": "whether it is the message asked for; false for the first one after it",
        "kafkaTopic": "topic in Kafka",
        "partition": "partition in Kafka",
        "kafkaOffset": "offset in the partition",
        "topic": "topic of the store",
        "queueId": "queue of the store",
        "queueOffset": "queue offset",
        "why": "why no message was found; missing if one was",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@bridge_app.command("kafka-to-store", context_settings=_AS_THEY_COME)
def kafka_to_store(context: typer.Context) -> None:
    """Copy Kafka topics into a store; all options: --help.

    Example: rocketflow bridge kafka-to-store --bootstrap localhost:9092 --store /data/store --topics orders
    """
    raise typer.Exit(_run(context.args, "kafka-to-store"))


@bridge_app.command("store-to-kafka", context_settings=_AS_THEY_COME)
def store_to_kafka(context: typer.Context) -> None:
    """Copy a store's topics into Kafka; all options: --help.

    Example: rocketflow bridge store-to-kafka --bootstrap localhost:9092 --store /data/store --topics orders
    """
    raise typer.Exit(_run(context.args, "store-to-kafka"))


@bridge_app.command("offset-map")
def offset_map(
    store: Annotated[str, typer.Argument(metavar="PATH", help="A store that a bridge wrote to.")],
    bridge_id: Annotated[str, typer.Option("--id", help="The bridge's id.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="Kafka topic, or with --queue the store's.")] = "",
    partition: Annotated[int | None, typer.Option("--partition", min=0, max=_MOST, help="Kafka partition.")] = None,
    queue: Annotated[int | None, typer.Option("--queue", min=0, max=_MOST, help="Queue of the store.")] = None,
    offset: Annotated[
        int, typer.Option("--offset", min=0, max=_MOST, help="Offset in the partition, or in the queue.")
    ] = 0,
    store_topic: Annotated[
        str | None, typer.Option("--store-topic", help="Topic of the store, if it has not the default name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Find the queue offset of a Kafka offset (or the first after it), or the Kafka offset of a queue offset.

    Example: rocketflow bridge offset-map /data/store --id b1 --topic orders --partition 0 --offset 1234
    """
    from rocketflow.kafka.offset_map import kafka_offset_of, queue_offset_of, why_no_kafka_offset, why_no_queue_offset
    from rocketflow.kafka.shared.topic_names import to_store_name
    from rocketflow_store import StoreConfig, StoreReader

    if not topic or (partition is None) == (queue is None):
        raise typer.BadParameter("give --topic, and --partition (with --id) or --queue")
    with StoreReader(store, StoreConfig.load()) as reader:
        if partition is not None and not bridge_id:
            _refuse_without_id(reader)
        why = None
        if queue is not None:
            found = kafka_offset_of(reader, topic, queue, offset)
            if found is None:
                why = why_no_kafka_offset(reader, topic, queue, offset)
        else:
            assert partition is not None
            asked = f"kafka-bridge:{bridge_id}", store_topic or to_store_name(topic), topic, partition, offset
            found = queue_offset_of(reader, *asked)
            if found is None:
                why = why_no_queue_offset(reader, *asked)
    exact = found is not None and (queue is not None or found.kafka_offset == offset)
    if as_json:
        print(json.dumps({"found": found is not None, "exact": exact, **(found.as_dict() if found else {"why": why})}))
    elif found is None:
        print(f"no such message in the store: {why}")
    else:
        near = "" if exact else " (the first after it)"
        print(
            f"{found.kafka_topic} partition {found.partition} offset {found.kafka_offset}{near} = "
            f"{found.store_topic} queue {found.queue_id} queue offset {found.queue_offset}"
        )
    if found is None:
        raise typer.Exit(1)


def _refuse_without_id(reader: StoreReader) -> NoReturn:
    from rocketflow.kafka.shared.claims import claims_on_store

    known = sorted({one.bridge_id for one in claims_on_store(reader)})
    hint = f"one of {', '.join(known)}" if known else "but no bridge has copied into this store"
    raise typer.BadParameter(f"--partition needs --id, the bridge whose commits are read: {hint}")


def _run(arguments: list[str], direction: str) -> int:
    from rocketflow.kafka.bridge import run_command

    try:
        return run_command(arguments, direction)
    except SystemExit as error:  # the arguments' own parser: 0 after --help, 2 for a wrong option
        return error.code if isinstance(error.code, int) else 2

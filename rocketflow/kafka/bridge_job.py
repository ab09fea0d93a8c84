"""`jobs/kafka_bridge.py`: the bridge as a job. Store to Kafka can also run through Spark's Kafka connector.

`--engine auto` uses the connector if it is on the class path and `--checkpoint` is given (the connector needs one),
else kafka-python. The last output line names the guarantee of the engine used; README.md beside this file explains it.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.kafka.bridge import BRIDGE_BEGIN, BRIDGE_END, BRIDGE_LOSS
from rocketflow.kafka.options.bridge_options import ARGUMENTS as BRIDGE_ARGUMENTS
from rocketflow.kafka.options.bridge_options import DIRECTION, STORE_TO_KAFKA, BridgeParser, options_of
from rocketflow.process.arguments import argument
from rocketflow.process.stderr import is_submitted
from rocketflow.process.stop_signals import StoppedError
from rocketflow.spark.shared.checkpoint import checkpoint_argument
from rocketflow_store.spi.setting_rows import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.kafka.options.bridge_options import BridgeOptions

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
_EXAMPLE: Final = (
    "example: rocketflow submit kafka_bridge --direction kafka-to-store --bootstrap localhost:9092 --store /data/store "
    "--topics orders --map orders.eu=orders_eu --until-caught-up"
)


ARGUMENTS: Final = (
    DIRECTION,
    *BRIDGE_ARGUMENTS,
    argument("--engine", "what copies into Kafka", "auto", choices=("auto", "kafka-python", "spark")),
    argument("--checkpoint", "the Spark query's checkpoint (--engine spark, auto)", form="DIR"),
    argument("--connector-option", "an option of Spark's Kafka sink", kind=Kind.LIST, form="K=V"),
)


_ENGINE: Final = {
    "engine": "kafka-python or spark",
    "guarantee": "exactly-once or at-least-once",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "submit kafka_bridge": {**BRIDGE_BEGIN, **BRIDGE_LOSS, **BRIDGE_END, **_ENGINE},
    "submit kafka_bridge --engine spark": {**BRIDGE_BEGIN, **BRIDGE_LOSS, **_ENGINE},
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the bridge and print one JSON line; return the exit code."""
    parser = BridgeParser(
        prog="rocketflow submit kafka_bridge",
        description="Copy topics between Kafka and a store, exactly once.",
        epilog=_EXAMPLE,
    )
    parser.add_rows(ARGUMENTS, checks={"--checkpoint": checkpoint_argument})
    given = parser.values(arguments)
    try:
        asked = options_of(given)
        done, code = _run(asked, given["engine"], given["checkpoint"], given["connector_option"])
    except StoppedError as error:
        if is_submitted():  # the command that submitted it reports the stop
            raise
        print(f"error: {error}; no commit was left incomplete", file=sys.stderr)
        return 128 + error.number
    print(json.dumps(done), flush=True)
    return code


def _run(
    asked: BridgeOptions, engine: str, checkpoint: str | None, connector: Sequence[str]
) -> tuple[dict[str, Any], int]:
    if engine == "spark" and asked.direction != STORE_TO_KAFKA:
        raise UsageError(
            "--engine spark works only with --direction store-to-kafka: into a store, only kafka-python commits the "
            "offsets together with the rows"
        )
    if engine == "spark" and checkpoint is None:
        raise UsageError("--engine spark needs --checkpoint")
    if engine != "kafka-python" and asked.direction == STORE_TO_KAFKA and checkpoint is not None:
        from rocketflow.kafka.into_kafka import spark_export

        done = spark_export.run(asked, checkpoint, connector, required=engine == "spark")
        if done is not None:
            return {**done, "engine": "spark", "guarantee": AT_LEAST_ONCE}, 0
        print("Spark's Kafka connector is not on the class path: using kafka-python", file=sys.stderr)
    from rocketflow.kafka.bridge import run_bridge

    summary = run_bridge(asked)
    return {**summary.as_dict(), "engine": "kafka-python", "guarantee": EXACTLY_ONCE}, summary.exit_code

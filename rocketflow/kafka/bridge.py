"""The entry points of `rocketflow bridge` and `jobs/kafka_bridge.py`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from rocketflow.environment import DEBUG
from rocketflow.kafka.client import clients
from rocketflow.kafka.options import bridge_options as options
from rocketflow.kafka.options.client_options import require_kafka
from rocketflow.kafka.options.secrets import hidden_in_errors, hide_in_logs
from rocketflow.kafka.shared.run_state import BridgeSummary, StopRequest
from rocketflow.process.job_timing import TIMING_FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.kafka.options.bridge_options import BridgeOptions


BRIDGE_BEGIN: Final = {
    "job": "kafka_bridge",
    "direction": "kafka-to-store or store-to-kafka",
    "bridge": "id of the bridge",
    "rows": "messages that were copied",
    "batches": "commits, or batches of the Spark query",
    **TIMING_FIELDS,
}
BRIDGE_LOSS: Final = {
    "quarantined": "messages that the target refused and that went to the quarantine topic",
    "lost": "messages that the source removed before they were copied",
    "caughtUp": "whether everything present at the start was copied; false without --until-caught-up",
}
BRIDGE_END: Final = {
    "lagMessages": "messages that exist and are not copied",
    "lagMs": "age of the newest message of the last commit, ms; 0 if there is no lag",
    "stopped": "name of the signal that stopped the bridge; null if none did",
    "progress": "next offset to copy by topic, then partition or queue",
}
_BRIDGE: Final = {**BRIDGE_BEGIN, **BRIDGE_LOSS, **BRIDGE_END}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "bridge kafka-to-store": _BRIDGE,
    "bridge store-to-kafka": _BRIDGE,
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def run_bridge(asked: BridgeOptions, stop: StopRequest | None = None) -> BridgeSummary:
    """Copy in the requested direction until stopped or caught up; return the run's summary."""
    stop = stop or StopRequest()
    require_kafka()
    hide_in_logs(asked.client.secrets)
    if not DEBUG.text():
        clients.quiet_log()
    with stop.listening(), hidden_in_errors(asked.client.secrets):
        if asked.direction == options.KAFKA_TO_STORE:
            from rocketflow.kafka.into_store.copy_in import KafkaToStore

            return KafkaToStore(asked, stop).run()
        from rocketflow.kafka.into_kafka.copy_out import StoreToKafka

        return StoreToKafka(asked, stop).run()


def run_command(arguments: Sequence[str], direction: str) -> int:
    """Run one `rocketflow bridge` command line; return its exit code."""
    parser = options.bridge_parser(
        program=f"rocketflow bridge {direction}",
        direction=direction,
        example=f"rocketflow bridge {direction} --bootstrap localhost:9092 --store /data/store --topics orders "
        "--until-caught-up",
    )
    parser.add_rows([options.JSON])
    given = parser.values(arguments)
    asked = options.options_of(given, direction)
    summary = run_bridge(asked)
    if given["json"]:
        print(json.dumps(summary.as_dict()), flush=True)
    else:
        how = "stopped by " + summary.stopped if summary.stopped else "caught up"
        print(f"{summary.rows} messages in {summary.batches} commits; {how}, lag {summary.lag_messages} messages")
        if summary.quarantined:
            print(f"{summary.quarantined} messages quarantined in {asked.quarantine_topic}", file=sys.stderr)
    return summary.exit_code

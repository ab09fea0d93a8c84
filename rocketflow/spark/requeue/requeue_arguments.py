"""The command line of `jobs/requeue.py`: deliver messages that are due, or requeue rows of a topic by hand."""

from __future__ import annotations

import argparse
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rocketflow.errors import UsageError
from rocketflow.process.arguments import JobParser
from rocketflow.process.times import TIME_FORM, SecondsError, parse_time
from rocketflow_store import FlushDiskType, MessageRejectedError, StoreConfig
from rocketflow_store.spi.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, check_send_topic, validate_topic
from rocketflow_store.spi.requeue import RequeueRequest, check_run_id
from rocketflow_store.spi.settings import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS: Final = ("delay", "timer", "retry")
ENGINES: Final = ("auto", "local", "spark")
_NOT_OVER: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, "RMQ_SYS_TRANS_OP_HALF_TOPIC"})
_DESCRIPTION: Final = """\
Move messages of a store, each exactly once however often a run is killed, repeated or started twice.

Without --from-topic: deliver messages that are due. Delayed messages and retries wait in the same level queues, in
order, and each queue has one position that a broker shares: --kinds delay and --kinds retry both move all messages of
these queues.
With --from-topic: requeue its messages (dead letters, a quarantine) for which --where holds, as one run with an id.
"""
_EXAMPLES: Final = """\
examples:
  rocketflow submit requeue --store /data/store
  rocketflow submit requeue --store /data/store --kinds timer --until 1795225732363 --dry-run
  rocketflow submit requeue --store /data/store --from-topic %DLQ%billing --where "tags = 'paid'" --run-id fix-7
"""


@dataclass(frozen=True, slots=True)
class RequeueJob:
    """A run of the requeue job. `manual` is None for the delivery of messages that are due until `until_ms`."""

    store: str
    kinds: frozenset[str]
    until_ms: int
    manual: RequeueRequest | None
    rate: int | None = None
    dry_run: bool = False
    wait: bool = False
    engine: str = "auto"
    config: str | None = None

    def store_config(self) -> StoreConfig:
        """Return the settings of `config` or the defaults, with synchronous flush: a moved message is on disk first."""
        known = StoreConfig.load(self.config)
        return replace(known, flush_disk_type=FlushDiskType.SYNC_FLUSH)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = JobParser(
        prog="rocketflow submit requeue",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", required=True, metavar="PATH", help="store directory")
    parser.add_argument("--dry-run", action="store_true", help="print what would be moved; write nothing")
    parser.add_argument(
        "--wait", action="store_true", help="wait for the process that has locked the store (else exit 75)"
    )
    parser.add_argument("--config", metavar="FILE", help="broker.conf of the store (delay levels, paths)")
    due = parser.add_argument_group("delivery of messages that are due")
    due.add_argument("--kinds", metavar="K,..", help="delay, timer, retry (default: all)")
    due.add_argument(
        "--until", metavar="TIME|now", help="deliver messages due at this time, ISO 8601 or ms (default: now)"
    )
    due.add_argument("--engine", choices=ENGINES, help="where records are encoded (default: auto, Spark for many)")
    hand = parser.add_argument_group("requeue by hand")
    hand.add_argument("--from-topic", metavar="T", help="the source: %%DLQ%%group, a quarantine, any topic")
    hand.add_argument("--to-topic", metavar="T", help="the target (default: the topic each message came from)")
    hand.add_argument(
        "--where", metavar="SQL", help="condition over the source's columns and `properties`, e.g. \"keys = 'k'\""
    )
    hand.add_argument("--max", type=int, metavar="N", help="at most N messages, by queue and offset")
    hand.add_argument("--rate", type=int, metavar="N", help="at most N messages a second; may change with a repeat")
    hand.add_argument("--run-id", metavar="ID", help="repeat or continue this run (default: a new one)")
    hand.add_argument("--skip-requeued", action="store_true", help="skip messages that other runs requeued")
    return parser


def parse_arguments(arguments: Sequence[str] | None = None) -> RequeueJob:
    """Parse a command line; argparse ends the process with exit code 2 if it is wrong.

    Raises:
        UsageError: a topic, a time or the kinds are wrong.
    """
    parser = make_parser()
    given = parser.parse_args(arguments)
    manual = None
    by_hand = ("to_topic", "where", "max", "rate", "run_id", "skip_requeued")
    due = ("kinds", "until", "engine")
    odd = [name for name in (by_hand if given.from_topic is None else due) if getattr(given, name)]
    if odd:
        option = f"--{odd[0].replace('_', '-')}"
        parser.error(f"{option} needs --from-topic" if given.from_topic is None else f"{option}: not with --from-topic")
    for name in ("max", "rate"):
        if getattr(given, name) is not None and getattr(given, name) < 1:
            parser.error(f"--{name} {getattr(given, name)}: must be 1 or more")
    if given.from_topic is not None:
        manual = RequeueRequest(
            run_id=check_run_id(given.run_id) if given.run_id is not None else _new_run_id(),
            from_topic=_checked_source(given.from_topic),
            to_topic=None if given.to_topic is None else _checked_target(given.to_topic),
            where=given.where,
            max_rows=given.max,
            skip_requeued=given.skip_requeued,
        )
    return RequeueJob(
        store=given.store,
        kinds=_kinds(given.kinds),
        until_ms=_until(given.until),
        manual=manual,
        rate=given.rate,
        dry_run=given.dry_run,
        wait=given.wait,
        engine=given.engine or "auto",
        config=given.config,
    )


def _kinds(text: str | None) -> frozenset[str]:
    found = frozenset(KINDS if text is None else (part.strip() for part in text.split(",") if part.strip()))
    if not found or not found.issubset(KINDS):
        raise UsageError(f"--kinds {text!r}: one or more of {', '.join(KINDS)}, separated by commas")
    return found


def _until(text: str | None) -> int:
    if text is None or text == "now":
        return SystemClock().now_ms()
    try:
        found = parse_time(text)
    except SecondsError as error:
        raise UsageError(f"--until {text!r}: {error}") from None
    except ValueError:
        found = -1
    if not 0 <= found < 10**18:
        raise UsageError(f"--until {text!r}: now, {TIME_FORM}")
    return found


def _checked_source(topic: str) -> str:
    if topic in _NOT_OVER:
        raise UsageError(
            f"--from-topic {topic}: its messages wait for their time or for the end of a transaction and would arrive "
            "twice; without --from-topic the messages that are due are delivered"
        )
    return validate_topic(topic)


def _checked_target(topic: str) -> str:
    try:
        check_send_topic(topic)
    except MessageRejectedError as error:
        raise UsageError(f"--to-topic {topic}: {error.why}") from error
    return topic


def _new_run_id() -> str:
    return f"run-{SystemClock().now_ms()}-{secrets.token_hex(3)}"

"""The command line of `jobs/requeue.py`: deliver messages that are due, or requeue rows of a topic by hand."""

from __future__ import annotations

import argparse
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rocketflow.errors import UsageError
from rocketflow.process.arguments import JobParser, argument, count_argument
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


_COMMON: Final = (
    argument("--store", "store directory", form="PATH", required=True),
    argument("--dry-run", "print what would be moved; write nothing", False),
    argument("--wait", "wait for the process that has locked the store (else exit 75)", False),
    argument("--config", "broker.conf of the store (delay levels, paths)", form="FILE"),
)
_DUE: Final = (
    argument("--kinds", "delay, timer, retry (default: all)", form="K,.."),
    argument("--until", "deliver messages due at this time, ISO 8601 or ms (default: now)", form="TIME|now"),
    argument("--engine", "where records are encoded (default: auto, Spark for many)", choices=ENGINES),
)
_BY_HAND: Final = (
    argument("--from-topic", "the source: %DLQ%group, a quarantine, any topic", form="T"),
    argument("--to-topic", "the target (default: the topic each message came from)", form="T"),
    argument("--where", "condition over the source's columns and `properties`, e.g. \"keys = 'k'\"", form="SQL"),
    count_argument("--max", "at most N messages, by queue and offset"),
    count_argument("--rate", "at most N messages a second; may change with a repeat"),
    argument("--run-id", "repeat or continue this run (default: a new one)", form="ID"),
    argument("--skip-requeued", "skip messages that other runs requeued", False),
)
ARGUMENTS: Final = (*_COMMON, *_DUE, *_BY_HAND)


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


def make_parser() -> JobParser:
    """Return the parser of the job's arguments."""
    parser = JobParser(
        prog="rocketflow submit requeue",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_rows(_COMMON)
    parser.add_rows(_DUE, group="delivery of messages that are due")
    parser.add_rows(_BY_HAND, group="requeue by hand")
    return parser


def parse_arguments(arguments: Sequence[str] | None = None) -> RequeueJob:
    """Parse a command line; argparse ends the process with exit code 2 if it is wrong.

    Raises:
        UsageError: a topic, a time or the kinds are wrong.
    """
    parser = make_parser()
    try:
        given = argparse.Namespace(**parser.values(arguments))
    except UsageError as error:
        parser.error(str(error))
    manual = None
    odd = [one.key for one in (_BY_HAND if given.from_topic is None else _DUE) if getattr(given, one.field)]
    if odd:
        parser.error(f"{odd[0]} needs --from-topic" if given.from_topic is None else f"{odd[0]}: not with --from-topic")
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

"""The options of a bridge: arguments of `rocketflow bridge` and of `jobs/kafka_bridge.py`."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rocketflow.errors import UsageError
from rocketflow.kafka.options.client_options import ClientOptions, parse_options
from rocketflow.kafka.shared.topic_names import TopicChoice, check_store_name
from rocketflow.process.arguments import JobParser
from rocketflow_store import OnBadBody
from rocketflow_store.spi.commits import check_sink_id

if TYPE_CHECKING:
    from collections.abc import Sequence

KAFKA_TO_STORE: Final = "kafka-to-store"
STORE_TO_KAFKA: Final = "store-to-kafka"
STOP, QUARANTINE, CONTINUE = "stop", "quarantine", "continue"
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """The options of one bridge. Times are in ms; its progress is stored under `bridge_id`."""

    direction: str
    bootstrap: str
    store: str
    choice: TopicChoice
    bridge_id: str
    client: ClientOptions = field(default_factory=lambda: ClientOptions({}))
    until_caught_up: bool = False
    start: str = "earliest"
    queues: int | None = None
    by_key: bool = False
    shared: bool = False
    hold_store: bool = False
    group: str | None = None
    on_refused: str = STOP
    quarantine_topic: str = "KAFKA_QUARANTINE"
    on_data_loss: str = STOP
    on_bad_body: OnBadBody = OnBadBody.FAIL
    max_batch_bytes: int = 16 * _MIB
    max_batch_rows: int = 200_000
    commit_interval_ms: int = 500
    lock_timeout_ms: int = 30_000
    discover_ms: int = 30_000
    create_topics: bool = False
    progress_topic: str = "__rocketflow_progress"
    origin_headers: bool = False
    config: str | None = None
    restart: bool = False

    @property
    def group_id(self) -> str:
        """The consumer group that the bridge reports its offsets to and that, with `shared`, assigns partitions."""
        return self.group or f"rocketflow-bridge-{self.bridge_id}"

    @property
    def quarantines(self) -> bool:
        """True if messages may go to the quarantine topic."""
        return self.on_refused == QUARANTINE or self.on_bad_body is OnBadBody.QUARANTINE

    @property
    def sink_id(self) -> str:
        """The sink id of this bridge's commits in the store."""
        return f"kafka-bridge:{self.bridge_id}"

    @property
    def transactional_id(self) -> str:
        """The id of this bridge's transactions in Kafka."""
        return f"rocketflow-bridge-{self.bridge_id}"


class BridgeParser(JobParser):
    """A parser whose errors show the names of options, never their values, which may be passwords."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse like argparse, and exit with an error for unrecognized arguments."""
        given, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options = [one.partition("=")[0] for one in unknown if one.startswith("--")]
            self.error(f"unrecognized arguments: {' '.join(options) or 'values that belong to no option'}")
        return given

    def error(self, message: str) -> NoReturn:
        """Exit with `message`, without the values that argparse puts into some messages."""
        message = re.sub(r"^(ambiguous option: --[\w-]+)=.*( could match )", r"\1\2", message, flags=re.DOTALL)
        message = re.sub(r"ignored explicit argument .*", "it takes no value", message, flags=re.DOTALL)
        super().error(message)


_ONLY_INTO_STORE: Final = frozenset({"--queues", "--share", "--hold-store"})
_ONLY_INTO_KAFKA: Final = frozenset(
    {"--by-key", "--create-topics", "--progress-topic", "--origin-headers", "--on-bad-body"}
)


def add_arguments(parser: argparse.ArgumentParser, *, direction: str | None = None) -> None:
    """Add the options of the bridge. With a direction, help omits the options of the other one."""
    hidden = _ONLY_INTO_KAFKA if direction == KAFKA_TO_STORE else _ONLY_INTO_STORE if direction else frozenset()

    def add(name: str, **more: Any) -> None:
        if direction is not None and "help" in more:
            for side in ("into the store: ", "into Kafka: "):
                more["help"] = more["help"].removeprefix(side)
        parser.add_argument(name, **{**more, "help": argparse.SUPPRESS} if name in hidden else more)

    if direction is None:
        add("--direction", required=True, choices=(KAFKA_TO_STORE, STORE_TO_KAFKA))
    add("--bootstrap", required=True, metavar="ADDR", help="Kafka brokers, host:port, comma-separated")
    add("--store", required=True, metavar="PATH", help="store directory")
    add("--topics", metavar="A,B", help="topics to copy, by the names of the side that is read")
    add("--topics-pattern", metavar="REGEX", help="copy every topic whose whole name matches, new ones too")
    add(
        "--map",
        action="append",
        default=[],
        metavar="KAFKA.TOPIC=STORE_TOPIC",
        help="another target name (default: . becomes |)",
    )
    add("--id", metavar="NAME", help="the bridge's name, under which it resumes (default: from the topics)")
    add("--restart", action="store_true", help="copy topics again that another bridge (another --id) has copied")
    add("--until-caught-up", action="store_true", help="end once everything present at the start is copied")
    add("--from", dest="start", choices=("earliest", "latest"), default="earliest", help="where a new bridge starts")
    add("--queues", type=int, metavar="N", help="into the store: N queues, chosen by key (default: one a partition)")
    add("--by-key", action="store_true", help="into Kafka: partitions chosen by key (default: that of the queue)")
    add("--share", action="store_true", help="into the store: divide partitions among all bridges of this id")
    add("--hold-store", action="store_true", help="keep the store's lock between commits")
    add("--group", metavar="NAME", help="consumer group to report offsets to (default: from the id)")
    add("--on-refused", choices=(STOP, QUARANTINE), default=STOP, help="messages that the other side refuses")
    add("--quarantine-topic", default="KAFKA_QUARANTINE", metavar="T", help="topic of quarantined messages")
    add("--on-data-loss", choices=(STOP, CONTINUE), default=STOP, help="messages that were deleted before the copy")
    add(
        "--on-bad-body",
        choices=tuple(one.value for one in OnBadBody),
        default=OnBadBody.FAIL.value,
        help="into Kafka: bodies that cannot be decoded: fail, raw (as stored, with a header), or quarantine",
    )
    add("--max-batch-bytes", type=int, default=16 * _MIB, metavar="N", help="most bytes of one commit (16 MiB)")
    add("--max-batch-rows", type=int, default=200_000, metavar="N", help="most messages of one commit (200,000)")
    add("--commit-interval-ms", type=int, default=500, metavar="MS", help="longest wait for a fuller commit (500)")
    add("--lock-timeout-ms", type=int, default=30_000, metavar="MS", help="wait for the store's lock (30,000)")
    add("--discover-ms", type=int, default=30_000, metavar="MS", help="look for new topics and partitions (30,000)")
    add("--create-topics", action="store_true", help="into Kafka: create missing topics")
    add(
        "--progress-topic",
        default="__rocketflow_progress",
        metavar="T",
        help="into Kafka: the topic of the bridge's progress",
    )
    add("--origin-headers", action="store_true", help="into Kafka: a header rocketmq.origin with topic:queue:offset")
    add("--config", metavar="FILE", help="the store's broker.conf")
    add("--kafka-option", action="append", default=[], metavar="K=V", help="an option of kafka-python's client")
    add("--kafka-config", action="append", default=[], metavar="FILE", help="such options as a properties file")


def options_of(given: argparse.Namespace, direction: str | None = None) -> BridgeOptions:
    """Return the options of a parsed command line. Raise UsageError for an invalid one."""
    direction = direction or given.direction
    assert direction is not None
    choice = TopicChoice.parse(given.topics, given.topics_pattern, given.map)
    for name, low in (
        ("queues", 1),
        ("max_batch_bytes", 1),
        ("max_batch_rows", 1),
        ("commit_interval_ms", 1),
        ("lock_timeout_ms", 0),
        ("discover_ms", 100),
    ):
        value = getattr(given, name)
        if value is not None and value < low:
            raise UsageError(f"--{name.replace('_', '-')} {value}: must be at least {low}")
    into_store = direction == KAFKA_TO_STORE
    wrong = ("by_key", "create_topics", "origin_headers") if into_store else ("queues", "share", "hold_store")
    for name in wrong:
        if getattr(given, name):
            raise UsageError(f"--{name.replace('_', '-')} has no meaning with {direction}")
    if into_store and given.on_bad_body != OnBadBody.FAIL.value:
        raise UsageError(f"--on-bad-body has no meaning with {direction}")
    if given.share and given.hold_store:
        raise UsageError("--share excludes --hold-store: bridges that share partitions take the store's lock in turn")
    if given.share and given.start == "latest":
        raise UsageError("--share excludes --from latest: start one bridge without --share first")
    if into_store:
        check_store_name(given.quarantine_topic, given.quarantine_topic)
    bridge_id = given.id or _default_id(direction, choice)
    if not _ID.fullmatch(bridge_id):
        raise UsageError(f"--id {bridge_id!r}: must be 1 to 80 letters, digits, _ . or -")
    check_sink_id(f"kafka-bridge:{bridge_id}")
    return BridgeOptions(
        direction=direction,
        bootstrap=_addresses(given.bootstrap),
        store=given.store,
        choice=choice,
        bridge_id=bridge_id,
        client=parse_options(given.kafka_option, given.kafka_config),
        until_caught_up=given.until_caught_up,
        start=given.start,
        queues=given.queues,
        by_key=given.by_key,
        shared=given.share,
        hold_store=given.hold_store,
        group=given.group,
        on_refused=given.on_refused,
        quarantine_topic=given.quarantine_topic,
        on_data_loss=given.on_data_loss,
        on_bad_body=OnBadBody(given.on_bad_body),
        max_batch_bytes=given.max_batch_bytes,
        max_batch_rows=given.max_batch_rows,
        commit_interval_ms=given.commit_interval_ms,
        lock_timeout_ms=given.lock_timeout_ms,
        discover_ms=given.discover_ms,
        create_topics=given.create_topics,
        progress_topic=given.progress_topic,
        origin_headers=given.origin_headers,
        config=given.config,
        restart=given.restart,
    )


def _default_id(direction: str, choice: TopicChoice) -> str:
    """Return an id derived from the chosen topics; it does not depend on their order or spelling."""
    import hashlib

    into_store = direction == KAFKA_TO_STORE
    pairs = {kafka: store for kafka, store in choice.pairs.items() if store != kafka.replace(".", "|")}
    names = choice.names if into_store else (choice.pairs.get(one, one).replace(".", "|") for one in choice.names)
    named = ",".join(sorted(set(names))) + "\n" + (choice.pattern.pattern if choice.pattern else "")
    named += "".join(f"\n{kafka}={store}" for kafka, store in sorted(pairs.items()))
    return f"{direction}-{hashlib.sha256(named.encode()).hexdigest()[:12]}"


def bridge_parser(*, program: str, direction: str | None, example: str) -> BridgeParser:
    """Return the parser for the command line of one direction; it exits with code 2 for an invalid one."""
    parser = BridgeParser(
        prog=program, description="Copy topics between Kafka and a store, exactly once.", epilog=f"example: {example}"
    )
    add_arguments(parser, direction=direction)
    return parser


def parse(arguments: Sequence[str] | None, *, program: str, direction: str | None, example: str) -> BridgeOptions:
    """Parse a command line."""
    parser = bridge_parser(program=program, direction=direction, example=example)
    return options_of(parser.parse_args(arguments), direction)


def _addresses(text: str) -> str:
    """Normalise a comma-separated list of brokers. Raise UsageError for an invalid address."""
    if "@" in text:
        raise UsageError(
            "--bootstrap: an address must not contain a name or password (the given one is not shown); give host:port, "
            "and put sasl.username and sasl.password into a file for --kafka-config"
        )
    found = [one.strip() for one in text.split(",") if one.strip()]
    for one in found:
        host, colon, port = one.rpartition(":")
        if colon and not (host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
            raise UsageError(f"--bootstrap {one}: must be host:port with a port from 1 to 65535")
    if not found:
        raise UsageError("--bootstrap is empty: give host:port, comma-separated")
    return ",".join(found)

"""The options of a bridge: arguments of `rocketflow bridge` and of `jobs/kafka_bridge.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rocketflow.errors import UsageError
from rocketflow.kafka.options.client_options import ClientOptions, parse_options
from rocketflow.kafka.shared.topic_names import TopicChoice, check_store_name
from rocketflow.process.arguments import JobParser, argument, count_argument
from rocketflow_store import OnBadBody
from rocketflow_store.spi.commits import check_sink_id
from rocketflow_store.spi.setting_rows import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

KAFKA_TO_STORE: Final = "kafka-to-store"
STORE_TO_KAFKA: Final = "store-to-kafka"
STOP, QUARANTINE, CONTINUE = "stop", "quarantine", "continue"
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_MIB: Final = 1 << 20


DIRECTION: Final = argument(
    "--direction", "from where to where", choices=(KAFKA_TO_STORE, STORE_TO_KAFKA), required=True
)
ARGUMENTS: Final = (
    argument("--bootstrap", "Kafka brokers, host:port, comma-separated", form="ADDR", required=True),
    argument("--store", "store directory", form="PATH", required=True),
    argument("--topics", "topics to copy, by the names of the side that is read", form="A,B"),
    argument("--topics-pattern", "copy every topic whose whole name matches, new ones too", form="REGEX"),
    argument("--map", "another target name (default: . becomes |)", kind=Kind.LIST, form="KAFKA.TOPIC=STORE_TOPIC"),
    argument(
        "--id", "the bridge's name, under which it resumes (default: from the topics)", form="NAME", field="bridge_id"
    ),
    argument("--restart", "copy topics again that another bridge (another --id) has copied", False),
    argument("--until-caught-up", "end once everything present at the start is copied", False),
    argument("--from", "where a new bridge starts", "earliest", choices=("earliest", "latest"), field="start"),
    count_argument("--queues", "into the store: N queues, chosen by key (default: one a partition)"),
    argument("--by-key", "into Kafka: partitions chosen by key (default: that of the queue)", False),
    argument("--share", "into the store: divide partitions among all bridges of this id", False, field="shared"),
    argument("--hold-store", "keep the store's lock between commits", False),
    argument("--group", "consumer group to report offsets to (default: from the id)", form="NAME"),
    argument("--on-refused", "messages that the other side refuses", STOP, choices=(STOP, QUARANTINE)),
    argument("--quarantine-topic", "topic of quarantined messages", "KAFKA_QUARANTINE", form="T"),
    argument("--on-data-loss", "messages that were deleted before the copy", STOP, choices=(STOP, CONTINUE)),
    argument(
        "--on-bad-body",
        "into Kafka: bodies that cannot be decoded: fail, raw (as stored, with a header), or quarantine",
        OnBadBody.FAIL,
        choices=tuple(one.value for one in OnBadBody),
    ),
    count_argument("--max-batch-bytes", "most bytes of one commit (16 MiB)", 16 * _MIB),
    count_argument("--max-batch-rows", "most messages of one commit (200,000)", 200_000),
    count_argument("--commit-interval-ms", "longest wait for a fuller commit (500)", 500, form="MS"),
    count_argument("--lock-timeout-ms", "wait for the store's lock (30,000)", 30_000, form="MS", least=0),
    count_argument("--discover-ms", "look for new topics and partitions (30,000)", 30_000, form="MS", least=100),
    argument("--create-topics", "into Kafka: create missing topics", False),
    argument("--progress-topic", "into Kafka: the topic of the bridge's progress", "__rocketflow_progress", form="T"),
    argument("--origin-headers", "into Kafka: a header rocketmq.origin with topic:queue:offset", False),
    argument("--config", "the store's broker.conf", form="FILE"),
    argument("--kafka-option", "an option of kafka-python's client", kind=Kind.LIST, form="K=V"),
    argument("--kafka-config", "such options as a properties file", kind=Kind.LIST, form="FILE"),
)
JSON: Final = argument("--json", "the summary as one JSON object", False)
COMMAND_ARGUMENTS: Final = (*ARGUMENTS, JSON)
"""Those of `rocketflow bridge`."""
_DEFAULT: Final = {one.field: one.default for one in ARGUMENTS}


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """The options of one bridge. Times are in ms; its progress is stored under `bridge_id`."""

    direction: str
    bootstrap: str
    store: str
    choice: TopicChoice
    bridge_id: str
    client: ClientOptions = field(default_factory=lambda: ClientOptions({}))
    until_caught_up: bool = _DEFAULT["until_caught_up"]
    start: str = _DEFAULT["start"]
    queues: int | None = _DEFAULT["queues"]
    by_key: bool = _DEFAULT["by_key"]
    shared: bool = _DEFAULT["shared"]
    hold_store: bool = _DEFAULT["hold_store"]
    group: str | None = _DEFAULT["group"]
    on_refused: str = _DEFAULT["on_refused"]
    quarantine_topic: str = _DEFAULT["quarantine_topic"]
    on_data_loss: str = _DEFAULT["on_data_loss"]
    on_bad_body: OnBadBody = _DEFAULT["on_bad_body"]
    max_batch_bytes: int = _DEFAULT["max_batch_bytes"]
    max_batch_rows: int = _DEFAULT["max_batch_rows"]
    commit_interval_ms: int = _DEFAULT["commit_interval_ms"]
    lock_timeout_ms: int = _DEFAULT["lock_timeout_ms"]
    discover_ms: int = _DEFAULT["discover_ms"]
    create_topics: bool = _DEFAULT["create_topics"]
    progress_topic: str = _DEFAULT["progress_topic"]
    origin_headers: bool = _DEFAULT["origin_headers"]
    config: str | None = _DEFAULT["config"]
    restart: bool = _DEFAULT["restart"]

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
_EITHER_WAY: Final = frozenset({"--progress-topic"})
"""Those that are accepted, and not looked at, in the other direction."""


def options_of(given: dict[str, Any], direction: str | None = None) -> BridgeOptions:
    """Return the options of a parsed command line. Raise UsageError for an invalid one."""
    direction = direction or given["direction"]
    assert direction is not None
    choice = TopicChoice.parse(given["topics"], given["topics_pattern"], given["map"])
    into_store = direction == KAFKA_TO_STORE
    wrong = _ONLY_INTO_KAFKA - _EITHER_WAY if into_store else _ONLY_INTO_STORE
    for one in ARGUMENTS:
        if one.key in wrong and given[one.field] != one.default:
            raise UsageError(f"{one.key} has no meaning with {direction}")
    if given["shared"] and given["hold_store"]:
        raise UsageError("--share excludes --hold-store: bridges that share partitions take the store's lock in turn")
    if given["shared"] and given["start"] == "latest":
        raise UsageError("--share excludes --from latest: start one bridge without --share first")
    if into_store:
        check_store_name(given["quarantine_topic"], given["quarantine_topic"])
    bridge_id = given["bridge_id"] or _default_id(direction, choice)
    if not _ID.fullmatch(bridge_id):
        raise UsageError(f"--id {bridge_id!r}: must be 1 to 80 letters, digits, _ . or -")
    check_sink_id(f"kafka-bridge:{bridge_id}")
    made = {
        "direction": direction,
        "bootstrap": _addresses(given["bootstrap"]),
        "choice": choice,
        "bridge_id": bridge_id,
        "client": parse_options(given["kafka_option"], given["kafka_config"]),
    }
    names = {one.name for one in fields(BridgeOptions)}
    return BridgeOptions(**{**{name: value for name, value in given.items() if name in names}, **made})


def _default_id(direction: str, choice: TopicChoice) -> str:
    """Return an id derived from the chosen topics; it does not depend on their order or spelling."""
    import hashlib

    into_store = direction == KAFKA_TO_STORE
    pairs = {kafka: store for kafka, store in choice.pairs.items() if store != kafka.replace(".", "|")}
    names = choice.names if into_store else (choice.pairs.get(one, one).replace(".", "|") for one in choice.names)
    named = ",".join(sorted(set(names))) + "\n" + (choice.pattern.pattern if choice.pattern else "")
    named += "".join(f"\n{kafka}={store}" for kafka, store in sorted(pairs.items()))
    return f"{direction}-{hashlib.sha256(named.encode()).hexdigest()[:12]}"


def bridge_parser(*, program: str, direction: str, example: str) -> BridgeParser:
    """Return the parser for the command line of one direction; it exits with code 2 for an invalid one.

    Help omits the options of the other direction.
    """
    parser = BridgeParser(
        prog=program, description="Copy topics between Kafka and a store, exactly once.", epilog=f"example: {example}"
    )
    hidden = _ONLY_INTO_KAFKA if direction == KAFKA_TO_STORE else _ONLY_INTO_STORE
    sides = ("into the store: ", "into Kafka: ")
    rows = (one._replace(about=one.about.removeprefix(sides[0]).removeprefix(sides[1])) for one in ARGUMENTS)
    parser.add_rows(rows, hidden=hidden)
    return parser


def parse(arguments: Sequence[str] | None, *, program: str, direction: str, example: str) -> BridgeOptions:
    """Parse a command line."""
    parser = bridge_parser(program=program, direction=direction, example=example)
    return options_of(parser.values(arguments), direction)


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

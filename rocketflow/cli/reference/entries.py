"""Collecting the entries: the rows of all settings, the tree of commands, fields of JSON, events and exit codes."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.reference.entry import Entry
from rocketflow.errors import UsageError
from rocketflow_store.spi.events import EVENTS
from rocketflow_store.spi.setting_rows import OWN_PREFIX, nearest_name, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocketflow_store.spi.setting_rows import Setting

SETTING: Final = "setting"
SERVER_SETTING: Final = "setting of both servers"
BROKER_SETTING: Final = "setting of a broker"
NAMESRV_SETTING: Final = "setting of a NameServer"
OTHER_KEY: Final = "key of RocketMQ"
CLIENT_OPTION: Final = "option of every client"
PRODUCER_OPTION: Final = "option of a producer"
PUSH_OPTION: Final = "option of a push consumer"
PULL_OPTION: Final = "option of a pull consumer"
SOURCE_OPTION: Final = "source option"
SINK_OPTION: Final = "sink option"
KAFKA_OPTION: Final = "option of kafka-python's client"
VARIABLE: Final = "environment variable"
COMMAND: Final = "command"
GROUP: Final = "group of commands"
OPTION: Final = "option of commands"
EVENT: Final = "event code"
EXIT_CODE: Final = "exit code"
OUTPUT: Final = "JSON output"
FIELD: Final = "field of JSON output"

_FILE_ROWS: Final = {
    SETTING: ("rocketflow_store.spi.settings:SETTINGS", "broker.conf", "brokers"),
    SERVER_SETTING: ("rocketflow.process.server_settings:SERVER_ROWS", "file", "servers"),
    BROKER_SETTING: ("rocketflow.broker.settings:BROKER_ROWS", "broker.conf", "brokers"),
    NAMESRV_SETTING: ("rocketflow.namesrv.settings:NAMESRV_ROWS", "namesrv.conf", "NameServers"),
}
"""The rows of settings in a file, by kind: their module and name, the file, and who reads it in RocketMQ."""
_CLIENTS: Final = {
    CLIENT_OPTION: "rocketflow.client.options:ClientOptions",
    PRODUCER_OPTION: "rocketflow.client.produce.options:ProducerOptions",
    PUSH_OPTION: "rocketflow.client.push.options:PushOptions",
    PULL_OPTION: "rocketflow.client.pull.options:PullOptions",
}
JOBS: Final = {
    "submit stream": "rocketflow.spark.stream.stream_job:ARGUMENTS",
    "submit quality": "rocketflow.quality.jobs.quality_job:ARGUMENTS",
    "submit requeue": "rocketflow.spark.requeue.requeue_arguments:ARGUMENTS",
    "submit rebuild_index": "rocketflow.spark.rebuild.rebuild_job:ARGUMENTS",
    "submit kafka_bridge": "rocketflow.kafka.bridge_job:ARGUMENTS",
    "bridge": "rocketflow.kafka.options.bridge_options:COMMAND_ARGUMENTS",
}
"""The rows of arguments by job."""
_OTHER_ROWS: Final = {
    **{f"argument of {job}": place for job, place in JOBS.items()},
    KAFKA_OPTION: "rocketflow.kafka.options.client_options:KAFKA_OPTIONS",
    VARIABLE: "rocketflow.environment:VARIABLES",
    SOURCE_OPTION: "rocketflow.spark.source.source_options:SOURCE_OPTIONS",
    SINK_OPTION: "rocketflow.spark.sink.sink_options:SINK_OPTIONS",
}
ARGUMENTS: Final = tuple(f"argument of {job}" for job in JOBS)
_PRINTING: Final = (
    *(f"rocketflow.cli.admin.{one}" for one in ("brokers", "groups", "members", "messages", "topics")),
    *(f"rocketflow.cli.{one}" for one in ("app", "bridge", "checkpoint", "consume", "profile", "quality_commands")),
    *("rocketflow.cli.send", "rocketflow.demo.demo", "rocketflow.kafka.bridge", "rocketflow.kafka.bridge_job"),
    *("rocketflow.quality.jobs.quality_job", "rocketflow.spark.rebuild.rebuild_job"),
    *("rocketflow.spark.requeue.requeue_job", "rocketflow.spark.stream.stream_job"),
    *(f"rocketflow.cli.store.{one}" for one in ("append_lines", "backup_store", "cat_messages", "clean_store")),
    *(f"rocketflow.cli.store.{one}" for one in ("group_lag", "ledger_lines", "recover_store", "restore_store")),
    *(f"rocketflow.cli.store.{one}" for one in ("store_commands", "store_info", "topic_admin", "verify_report")),
)
"""The modules that print JSON, each with its FIELDS."""
_EXAMPLE: Final = re.compile(r"\s*Example: ((?:.+\n?)+)")
_NAMES: Final = "give a setting, an option, an argument, a command, a field, an event code or an exit code"
_NEAR: Final = 0.75
_HIDDEN: Final = "Accepted, and not part of the help."
_EXIT_CODES: Final = (
    ("0", "The command did what it was asked for; nothing is wrong.", "Nothing."),
    ("1", "There are findings, or an error that lost nothing.", "Read the last line of stderr: it names what to do."),
    ("2", "The command line is wrong: an unknown option, a bad value, a path that is no store.", "Correct it."),
    ("3", "Data is lost or quarantined.", "Run `rocketflow store verify PATH`; see quarantine/report.jsonl."),
    ("69", "A NameServer or broker cannot be reached.", "Check the address and that it runs."),
    ("75", "The store is locked by another writer, or a port is in use.", "Wait, or stop the holder that is named."),
    ("130", "The command was interrupted (Ctrl-C). Other signals end it with 128 plus their number.", "Run it again."),
)


def all_entries(commands: Any) -> list[Entry]:
    """Return all entries, kind by kind; `commands` is the tree of commands."""
    fields = output_fields()
    below = list(_below(commands, ""))
    return [
        *_of_files(),
        *_of_clients(),
        *(_of_row(kind, one) for kind, place in _OTHER_ROWS.items() for one in _loaded(place)),
        *below,
        *_of_options(commands),
        *(Entry(code, EXIT_CODE, about, (("what to do", remedy),)) for code, about, remedy in _EXIT_CODES),
        *(Entry(one.code, EVENT, one.about, (("cause", one.cause), ("what to do", one.remedy))) for one in EVENTS),
        *(_of_output(command, named) for command, named in fields.items()),
        *_of_fields(fields),
    ]


def output_fields() -> dict[str, dict[str, str]]:
    """Return the fields of the JSON that commands print with `--json`, and jobs as their last line, by command."""
    found: dict[str, dict[str, str]] = {}
    for one in _PRINTING:
        found |= import_module(one).FIELDS
    return dict(sorted(found.items()))


def find_entries(name: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with this name, compared without case, and with or without the dashes of an option.

    Raises:
        UsageError: there is none; the error names a near one, or the kinds of names.
    """
    wanted = name.strip().lower().removeprefix("rocketflow ")
    by_name: dict[str, list[Entry]] = {}
    for one in entries:
        for known in {other.lower() for other in (one.name, *one.also)}:
            by_name.setdefault(known, []).append(one)
    found = by_name.get(wanted) or by_name.get(f"--{wanted}")
    if not found:
        nearest = nearest_name(name, {known for one in entries for known in (one.name, *one.also)}, _NEAR)
        hint = f"did you mean {nearest}?" if nearest else _NAMES
        raise UsageError(f"there is no entry {name!r}: {hint}")
    return found


def _loaded(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _of_files() -> Iterator[Entry]:
    from rocketflow_store.spi.settings import STORE_TABLE

    known = set()
    for kind, (place, file, readers) in _FILE_ROWS.items():
        for one in _loaded(place):
            known.add(one.key)
            yield _of_key(kind, one, file, readers)
    for one in STORE_TABLE.values():
        if one.key not in known:
            yield _of_key(OTHER_KEY, one, "broker.conf", "brokers")


def _of_key(kind: str, one: Setting, file: str, readers: str) -> Entry:
    if not one.about:
        about = "Accepted, without effect: RocketFlow has no such part."
        return Entry(one.key, kind, about, (("takes effect", one.effect.value),), (one.variable,))
    known = f"{readers} since {one.since}" if one.since else "RocketFlow's own"
    facts = [
        *_values(one),
        ("takes effect", one.effect.value),
        (file, f"{one.key} ({known})"),
        ("environment", one.variable),
    ]
    if kind == SETTING:
        facts.append(("Python", f"StoreConfig({one.field}=...)"))
    return Entry(
        one.key, kind, one.about, tuple(facts), (one.field or one.key, one.key.removeprefix(OWN_PREFIX), one.variable)
    )


def _values(one: Setting) -> list[tuple[str, str]]:
    values = one.values_text()
    return [("default", one.default_text()), *([("values", values)] if values else [])]


def _of_clients() -> Iterator[Entry]:
    shared: tuple[Setting, ...] = ()
    for kind, place in _CLIENTS.items():
        options = _loaded(place)
        for one in rows_of(options):
            if one not in shared:
                facts = (*_values(one), ("Python", f"{options.__name__}({one.key}=...)"))
                yield Entry(one.key, kind, one.about, facts)
        shared = shared or rows_of(options)


def _of_row(kind: str, one: Setting) -> Entry:
    return Entry(one.key, kind, one.about, tuple(_values(one)), one.also)


def _of_output(command: str, fields: dict[str, str]) -> Entry:
    if command.startswith("submit "):
        return Entry(command, OUTPUT, f"Fields of the last line of `rocketflow {command}`.", tuple(fields.items()))
    return Entry(f"{command} --json", OUTPUT, f"Fields of `rocketflow {command} --json`.", tuple(fields.items()))


def _of_fields(fields: dict[str, dict[str, str]]) -> Iterator[Entry]:
    found = ((name, about, command) for command, named in fields.items() for name, about in named.items())
    return _shared(FIELD, found)


def _of_options(commands: Any) -> Iterator[Entry]:
    return _shared(OPTION, _options(commands, ""))


def _shared(kind: str, found: Iterable[tuple[str, str, str]]) -> Iterator[Entry]:
    """Yield one entry for all commands that share (name, about)."""
    by_text: dict[tuple[str, str], list[str]] = {}
    for name, about, command in found:
        by_text.setdefault((name, about), []).append(command)
    for (name, about), commands in by_text.items():
        yield Entry(name, kind, about, (("commands", ", ".join(commands)),))


def _options(command: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield (spelling, help, command) of each option of a command and of those below it."""
    for one in command.params:
        if one.param_type_name == "option":
            for flag in (*one.opts, *one.secondary_opts):
                yield flag, " ".join((one.help or _HIDDEN).split()), name or "rocketflow"
    for word, below in getattr(command, "commands", {}).items():
        yield from _options(below, f"{name} {word}".strip())


def _below(group: Any, name: str, parent: Any = None) -> Iterator[Entry]:
    # a command has the names of its help option from the context above it, and keeps those of its first context
    above = group.make_context(name, [], parent, resilient_parsing=True)
    for word, command in getattr(group, "commands", {}).items():
        full = f"{name} {word}".strip()
        if hasattr(command, "commands"):
            below = ((sub, one.short_help or "") for sub, one in command.commands.items())
            yield Entry(full, GROUP, command.help or "", tuple(below))
            yield from _below(command, full, above)
            continue
        about = command.help or ""
        example = _EXAMPLE.search(about)
        context = command.make_context(full, [], above, resilient_parsing=True)
        records = [one.get_help_record(context) for one in command.params]
        facts = [(signature, " ".join(text.split())) for signature, text in filter(None, records)]
        if example:
            facts.append(("example", " ".join(example[1].split())))
        yield Entry(full, COMMAND, " ".join(_EXAMPLE.sub(" ", about).split()), tuple(facts))

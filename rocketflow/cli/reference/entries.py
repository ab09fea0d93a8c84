"""Collecting the entries: from the rows of all settings, the tables of options, the events, the tree of commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.reference.entry import Entry
from rocketflow.cli.reference.output_fields import OUTPUT_FIELDS
from rocketflow.errors import UsageError
from rocketflow_store.spi.events import EVENTS
from rocketflow_store.spi.setting_rows import nearest_name, rows_of
from rocketflow_store.spi.settings import SETTINGS, STORE_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocketflow_store.spi.setting_rows import Setting

SETTING: Final = "setting"
SERVER_SETTING: Final = "setting of both servers"
BROKER_SETTING: Final = "setting of a broker"
NAMESRV_SETTING: Final = "setting of a NameServer"
CLIENT_OPTION: Final = "option of every client"
PRODUCER_OPTION: Final = "option of a producer"
PUSH_OPTION: Final = "option of a push consumer"
PULL_OPTION: Final = "option of a pull consumer"
OTHER_KEY: Final = "key of RocketMQ"
SOURCE_OPTION: Final = "source option"
SINK_OPTION: Final = "sink option"
COMMAND: Final = "command"
EVENT: Final = "event code"
EXIT_CODE: Final = "exit code"
OUTPUT: Final = "JSON output"
KINDS: Final = (
    SETTING,
    SERVER_SETTING,
    BROKER_SETTING,
    NAMESRV_SETTING,
    OTHER_KEY,
    SOURCE_OPTION,
    SINK_OPTION,
    COMMAND,
    EXIT_CODE,
    EVENT,
    OUTPUT,
)
_EXAMPLE: Final = re.compile(r"\s*Example: ((?:.+\n?)+)")
_READERS: Final = {"broker.conf": "brokers", "namesrv.conf": "NameServers"}
_NAMES: Final = "give a setting, an option, a command, an event code or an exit code"
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
    from rocketflow.broker.settings import BROKER_ROWS
    from rocketflow.client.options import ClientOptions
    from rocketflow.namesrv.settings import NAMESRV_ROWS
    from rocketflow.process.server_settings import SERVER_ROWS
    from rocketflow.spark.sink.sink_options import SINK_OPTIONS
    from rocketflow.spark.source.source_options import SOURCE_OPTIONS

    with_entry = {one.key for one in (*SETTINGS, *SERVER_ROWS, *BROKER_ROWS)}
    others = [one for key, one in STORE_TABLE.items() if key not in with_entry]
    return [
        *(_of_setting(SETTING, one, "broker.conf") for one in SETTINGS),
        *(_of_setting(SERVER_SETTING, one, "file") for one in SERVER_ROWS),
        *(_of_setting(BROKER_SETTING, one, "broker.conf") for one in BROKER_ROWS),
        *(_of_setting(NAMESRV_SETTING, one, "namesrv.conf") for one in NAMESRV_ROWS),
        *(_of_setting(OTHER_KEY, one, "broker.conf") for one in others),
        *(
            _of_argument(kind, options, one)
            for kind, options in _client_options().items()
            for one in rows_of(options)
            if options is ClientOptions or one not in rows_of(ClientOptions)
        ),
        *_of_options(SOURCE_OPTION, SOURCE_OPTIONS),
        *_of_options(SINK_OPTION, SINK_OPTIONS),
        *_below(commands, ""),
        *(Entry(code, EXIT_CODE, about, (("what to do", remedy),)) for code, about, remedy in _EXIT_CODES),
        *(Entry(one.code, EVENT, one.about, (("cause", one.cause), ("what to do", one.remedy))) for one in EVENTS),
        *(_of_output(command, fields) for command, fields in OUTPUT_FIELDS.items()),
    ]


def _client_options() -> dict[str, type]:
    from rocketflow.client.options import ClientOptions
    from rocketflow.client.produce.options import ProducerOptions
    from rocketflow.client.pull.options import PullOptions
    from rocketflow.client.push.options import PushOptions

    kinds = (CLIENT_OPTION, PRODUCER_OPTION, PUSH_OPTION, PULL_OPTION)
    return dict(zip(kinds, (ClientOptions, ProducerOptions, PushOptions, PullOptions), strict=True))


def find_entries(name: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with this name, compared without case.

    Raises:
        UsageError: there is none; the error names the nearest one, or the kinds of names.
    """
    wanted = name.strip().lower().removeprefix("rocketflow ")
    found = [one for one in entries if wanted in {known.lower() for known in (one.name, *one.also)}]
    if not found:
        names = {known for one in entries for known in (one.name, *one.also)}
        nearest = nearest_name(name, names)
        hint = f"did you mean {nearest}?" if nearest else _NAMES
        raise UsageError(f"there is no entry {name!r}: {hint}")
    return found


def _of_setting(kind: str, one: Setting, file: str) -> Entry:
    if not one.field and not one.about:
        about = "Accepted, without effect: RocketFlow has no such part."
        return Entry(one.key, kind, about, (("takes effect", one.effect.value),), (one.variable,))
    facts = [("default", one.default_text())]
    if values := one.values_text():
        facts.append(("values", values))
    known = "RocketFlow's own" if one.since is None else f"{_READERS.get(file, 'servers')} since {one.since}"
    facts += [
        ("takes effect", one.effect.value),
        (file, f"{one.key} ({known})"),
        ("environment", one.variable),
    ]
    if kind == SETTING:
        facts.append(("Python", f"StoreConfig({one.field}=...)"))
    return Entry(one.key, kind, one.about, tuple(facts), tuple(filter(None, (one.field, one.variable, *one.also))))


def _of_argument(kind: str, options: type, one: Setting) -> Entry:
    facts = [("default", one.default_text())]
    if values := one.values_text():
        facts.append(("values", values))
    return Entry(one.key, kind, one.about, (*facts, ("Python", f"{options.__name__}({one.key}=...)")))


def _of_options(kind: str, options: Iterable[Setting]) -> Iterator[Entry]:
    for one in options:
        yield Entry(one.key, kind, one.about, (("default", one.default_text()), ("values", one.values_text())))


def _of_output(command: str, fields: dict[str, str]) -> Entry:
    if command.startswith("submit "):
        return Entry(command, OUTPUT, f"Fields of the last line of `rocketflow {command}`.", tuple(fields.items()))
    return Entry(f"{command} --json", OUTPUT, f"Fields of `rocketflow {command} --json`.", tuple(fields.items()))


def _below(group: Any, name: str) -> Iterator[Entry]:
    for word, command in getattr(group, "commands", {}).items():
        full = f"{name} {word}".strip()
        if hasattr(command, "commands"):
            yield from _below(command, full)
            continue
        about = command.help or ""
        example = _EXAMPLE.search(about)
        context = command.make_context(full, [], resilient_parsing=True)
        records = [one.get_help_record(context) for one in command.params]
        facts = [(signature, " ".join(text.split())) for signature, text in filter(None, records)]
        if example:
            facts.append(("example", " ".join(example[1].split())))
        yield Entry(full, COMMAND, " ".join(_EXAMPLE.sub(" ", about).split()), tuple(facts))

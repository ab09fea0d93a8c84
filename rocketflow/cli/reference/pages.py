"""The reference as pages in Markdown, one for one or two kinds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.cli.reference.entries import (
    ARGUMENTS,
    BROKER_SETTING,
    CLIENT_OPTION,
    COMMAND,
    EVENT,
    EXIT_CODE,
    JOBS,
    KAFKA_OPTION,
    NAMESRV_SETTING,
    OUTPUT,
    PRODUCER_OPTION,
    PULL_OPTION,
    PUSH_OPTION,
    SERVER_SETTING,
    SETTING,
    SINK_OPTION,
    SOURCE_OPTION,
    VARIABLE,
)
from rocketflow.cli.reference.request_page import NAME, request_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketflow.cli.reference.entry import Entry

DIRECTORY: Final = Path(__file__).parent
_PAGES: Final = (
    ("settings.md", "Settings of a store", (SETTING,)),
    ("servers.md", "Settings of servers", (SERVER_SETTING, BROKER_SETTING, NAMESRV_SETTING)),
    ("clients.md", "Options of clients", (CLIENT_OPTION, PRODUCER_OPTION, PUSH_OPTION, PULL_OPTION)),
    ("options.md", "Options of the Spark source and sink", (SOURCE_OPTION, SINK_OPTION)),
    ("arguments.md", "Arguments of jobs and of the bridge, variables", (*ARGUMENTS, KAFKA_OPTION, VARIABLE)),
    ("commands.md", "Commands and exit codes", (COMMAND, EXIT_CODE)),
    ("events.md", "Event codes", (EVENT,)),
    ("output.md", "JSON output", (OUTPUT,)),
)
_HEADINGS: Final = {
    SERVER_SETTING: "Both servers",
    BROKER_SETTING: "Broker",
    NAMESRV_SETTING: "NameServer",
    CLIENT_OPTION: "Every client",
    PRODUCER_OPTION: "Producers",
    PUSH_OPTION: "Push consumers",
    PULL_OPTION: "Pull consumers",
    SOURCE_OPTION: "Source",
    SINK_OPTION: "Sink",
    COMMAND: "Commands",
    EXIT_CODE: "Exit codes",
    KAFKA_OPTION: "Options of kafka-python's client that the bridge looks at",
    VARIABLE: "Environment variables",
    **{f"argument of {job}": f"`rocketflow {job}`" for job in JOBS},
}
_SETTINGS_HEAD: Final = (
    "Later sources win: RocketMQ's default, `broker.conf` (`--config FILE`, option `config`), environment, "
    "command line. Values out of range are clamped where RocketMQ clamps them; file sizes out of range are errors."
)


def pages(entries: Sequence[Entry]) -> dict[str, str]:
    """Return the text of each page by file name."""
    found = {name: "".join(f"{line}\n" for line in _page(title, kinds, entries)) for name, title, kinds in _PAGES}
    return {**found, NAME: request_page()}


def _page(title: str, kinds: Sequence[str], entries: Sequence[Entry]) -> Iterator[str]:
    yield f"# {title}"
    yield ""
    yield "Written by `make reference`; `rocketflow explain NAME` prints an entry."
    for kind in kinds:
        yield ""
        if len(kinds) > 1:
            yield f"## {_HEADINGS[kind]}"
            yield ""
        some = [one for one in entries if one.kind == kind]
        if kind == SETTING:
            yield _SETTINGS_HEAD
            yield ""
        if kind in (COMMAND, OUTPUT):
            yield from _sections(some, "### " if len(kinds) > 1 else "## ")
        else:
            yield from _table(kind, some)


def _table(kind: str, entries: Sequence[Entry]) -> Iterator[str]:
    labels = [label for label, _ in entries[0].facts if label != "Python"]
    for one in entries:
        labels += [label for label, _ in one.facts if label not in (*labels, "Python")]
    yield f"| {kind} | about | {' | '.join(labels)} |"
    yield "|---|---" + "|---" * len(labels) + "|"
    for one in entries:
        facts = dict(one.facts)
        cells = [f"`{one.name}`", one.about, *(facts.get(label, "") for label in labels)]
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _sections(entries: Sequence[Entry], mark: str) -> Iterator[str]:
    for number, one in enumerate(entries):
        if number:
            yield ""
        yield f"{mark}`rocketflow {one.name}`"
        yield ""
        yield one.about
        example = dict(one.facts).get("example")
        facts = [(label, text) for label, text in one.facts if label != "example"]
        if example:
            yield from ("", "```sh", example, "```")
        if facts:
            yield from ("", "| name | meaning |", "|---|---|")
            yield from (f"| `{_cell(label)}` | {_cell(text)} |" for label, text in facts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

"""Shared parts of commands: arguments, opening a store, printing JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketflow.cli.shared.message_rows import BodyForm
from rocketflow.process.tag_hints import likely_tags
from rocketflow.process.times import parse_time
from rocketflow_store import OnBadBody

if TYPE_CHECKING:
    from rocketflow_store import StoreConfig, StoreReader


QUEUE_FIELDS: Final = {"brokerName": "name of the broker", "queueId": "queue"}
QUEUE_BOUNDS: Final = {
    "minOffset": "first queue offset that can be read",
    "maxOffset": "queue offset after the last message",
}


def tags_argument(given: str | None) -> str | None:
    """Return a tag expression; print a note if it names one tag where several were probably meant."""
    meant = None if given is None else likely_tags(given)
    if meant is not None:
        print(f"note: --tags {given!r} names one tag; did you mean --tags {meant!r}?", file=sys.stderr)
    return given


PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="The store directory (storePathRootDir).")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
ConfigOption = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="broker.conf, if file sizes or paths are not RocketMQ's."),
]
TopicOption = Annotated[str, typer.Option("--topic", help="The topic.")]
MAX_LAST: Final = 100_000
"""Most messages of --last, which are held at once."""
LastOption = Annotated[
    int | None,
    typer.Option("--last", "--tail", min=1, max=MAX_LAST, help="The N newest messages, the newest at the end."),
]
BodyOption = Annotated[BodyForm, typer.Option("--body", help="How bodies are shown.")]
TagsOption = Annotated[
    str | None, typer.Option("--tags", callback=tags_argument, help="Tag expression, e.g. 'a || b'.")
]
OnBadBodyOption = Annotated[
    OnBadBody,
    typer.Option(
        "--on-bad-body",
        help="Bodies that cannot be decoded: end with an error, take them as stored, or skip their messages.",
    ),
]


def time_argument(given: str | int) -> int:
    """Return a time of the command line in ms since 1970; a default is one already."""
    if isinstance(given, int):
        return given
    try:
        return parse_time(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def load_config(file: str | None) -> StoreConfig:
    """Return the settings of the environment and of a broker.conf."""
    from rocketflow_store import StoreConfig

    return StoreConfig.load(file)


def open_reader(path: str, config: str | None) -> StoreReader:
    """Open a store for reading."""
    from rocketflow_store import StoreReader

    return StoreReader(path, load_config(config))


def emit(fields: dict[str, Any]) -> None:
    """Print one JSON object on a line."""
    sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")

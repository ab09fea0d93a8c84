"""Commands whose modules are imported when they are used: starting one command does not import all others."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

import typer
from typer.core import TyperGroup

MODULES: Final[Mapping[str, str]] = {
    "namesrv": "rocketflow.cli.network:namesrv",
    "broker": "rocketflow.cli.network:broker",
    "send": "rocketflow.cli.send:send",
    "consume": "rocketflow.cli.consume:consume",
    "store": "rocketflow.cli.store.store_commands:store_app",
    "bridge": "rocketflow.cli.bridge:bridge_app",
    "quality": "rocketflow.cli.quality_commands:quality_app",
    "admin": "rocketflow.cli.admin.admin_app:admin_app",
    "checkpoint": "rocketflow.cli.checkpoint:checkpoint_app",
    "profile": "rocketflow.cli.profile:profile_app",
}
"""The module and the function, or the application of subcommands, of each command that is imported when it is used."""


_SENTENCE: Final = re.compile(r".*?\.(?= |$)")


class _Commands(MutableMapping[str, Any]):
    """The commands of a group by name; those of MODULES are imported at their first use."""

    def __init__(self, built: Mapping[str, Any]) -> None:
        self._built: dict[str, Any] = {**dict.fromkeys(MODULES), **built}

    def __getitem__(self, name: str) -> Any:
        if self._built[name] is None:
            self._built[name] = _build(name)
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._built)

    def __len__(self) -> int:
        return len(self._built)


class LateCommands(TyperGroup):
    """The root group: its own commands, and those of MODULES."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for one in self.commands.values():
            _list_in_whole_sentences(one)
        self.commands = _Commands(self.commands)


def _build(name: str) -> Any:
    """Import the command `name` and build its parser."""
    module, _, attribute = MODULES[name].partition(":")
    found: typer.Typer | Callable[..., None] = getattr(importlib.import_module(module), attribute)
    parent = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    parent.callback()(lambda: None)  # it has subcommands, even if it has one only
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
    else:
        parent.command(name)(found)
    group: Any = typer.main.get_command(parent)
    built = group.commands[name]
    _list_in_whole_sentences(built)
    return built


def _list_in_whole_sentences(command: Any) -> None:
    """Let lists of commands show the first sentence of a command's help, and of its subcommands'; they would cut it."""
    text = " ".join((command.help or "").partition("\n\n")[0].partition("Example:")[0].split())
    found = _SENTENCE.match(text)
    command.short_help = command.short_help or (text if found is None else found[0])
    for one in getattr(command, "commands", {}).values():
        _list_in_whole_sentences(one)

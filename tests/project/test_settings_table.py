"""Everything that a user can set is a row of one type; typer declares the options of commands."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from rocketflow.broker.settings import BrokerSettings
from rocketflow.cli.reference.entries import all_entries
from rocketflow.cli.reference.pages import pages
from rocketflow.namesrv.settings import NamesrvSettings
from tests.project.parsed_code import nodes

ROOT: Final = Path(__file__).parents[2]
TEXTS: Final = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for folder in ("rocketflow", "store/rocketflow_store", "jobs")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not {"starter", "examples"} & set(path.parts)  # jobs of users, which stand alone
}


CLASSES: Final = {
    *("StoreSettings", "TlsSettings", "ServerSettings", "BrokerSettings", "NamesrvSettings"),
    *("ClientOptions", "ProducerOptions", "PushOptions", "PullOptions"),
}


def calls(name: str) -> set[str]:
    """Return the modules that call a function or method of this name."""
    return {
        path
        for path, text in TEXTS.items()
        for node in nodes(text)
        if isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    }


def test_arguments_of_jobs_are_added_from_rows_alone() -> None:
    assert calls("add_argument") == {"rocketflow/process/arguments.py"}
    assert calls("ArgumentParser") == set()
    assert calls("JobParser") | calls("BridgeParser") <= calls("add_rows")


def test_no_class_of_settings_declares_values_without_rows() -> None:
    """Attributes with a default in a class of settings or client options are rows."""
    bare = [
        (path, node.name, one.target.id)
        for path, text in TEXTS.items()
        for node in nodes(text)
        if isinstance(node, ast.ClassDef) and node.name in CLASSES
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and "ClassVar" not in ast.dump(one)
        if not isinstance(one.value, ast.Call)
    ]
    assert bare == []


def test_every_key_of_servers_has_a_description_and_those_that_they_read_a_line_on_a_page() -> None:

    from rocketflow.cli.app import command_tree

    entries = all_entries(command_tree())
    about = {one.name: one.about for one in entries}
    written = "".join(pages(entries).values())
    read = set()
    for kind in (BrokerSettings, NamesrvSettings):
        for key, row in kind.TABLE.items():
            assert about[key], key
            if row.field:
                read.add(key)
                assert f"| `{key}` | {row.about}" in written, key
    assert len({*read, "storeHost"}) == 148, "the store's address is made up from two other keys"

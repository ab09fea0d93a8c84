"""Names that users have stored or scripted: a change of the code's layout changes none of them.

`stored_names.txt` lists them, one a line. After a deliberate change rewrite it:
`python -m tests.project.test_stored_names`.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.cli.reference.entries import output_fields
from rocketflow.environment import VARIABLES
from tests.project.parsed_code import nodes
from tests.support.golden import extract
from tests.support.output_fields import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("stored_names.txt")
GOLDEN: Final = ROOT / "tests" / "golden"
OPTION_TUPLES: Final = {"SOURCE_OPTIONS", "SINK_OPTIONS"}
LITERALS: Final = {
    "event code": re.compile(r"RF-[A-Z-]+\Z"),
    "sink id or system topic": re.compile(r"(rmq_sys_\w+|kafka-bridge:|requeue:|quality:|txn\.|write\.)"),
    "message property": re.compile(r"(ORIGIN|QUALITY|KAFKA|REQUEUE)_[A-Z_]+\Z"),
    "environment variable": re.compile(r"ROCKETFLOW_[A-Z_]*\Z"),
}
"""The kinds of names among the product's string constants, by pattern; docstrings do not match."""
COMMANDS: Final = (
    "store info STORE",
    "store info STORE --sizes",
    "store info STORE --config CONF",
    "store topics STORE",
    "store groups STORE",
    "store verify STORE",
    "store rebuild STORE --dry-run",
    "store append STORE --topic topic-1 --create --input INPUT",
    "store cat STORE --topic topic-1",
    "store find STORE --topic topic-1 --key k",
    "store offset STORE --topic topic-1 --queue 0 --timestamp 0",
    "submit requeue --store STORE",
    "store ledger STORE",
    "store recover STORE",
    "store clean STORE --dry-run",
    "store dump STORE/config/topics.json",
    "init STORE/new",
    "version",
    "doctor",
)


def modules() -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    """Yield the module name and the nodes of the syntax tree of each of the product's files."""
    for base, folder in ((ROOT / "store", "rocketflow_store"), (ROOT, "rocketflow")):
        for path in sorted((base / folder).rglob("*.py")):
            name = ".".join(path.relative_to(base).with_suffix("").parts)
            yield name.removesuffix(".__init__"), nodes(path.read_text("utf-8"))


def last_name(node: ast.expr) -> str:
    """Return the name of a variable or of an attribute, "" for anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def names_in_source() -> Iterator[str]:
    """Yield loggers, event codes, sink ids, properties, variables, options and Airflow's classes."""
    for module, found_nodes in modules():
        for node in found_nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for kind, pattern in LITERALS.items():
                    if found := pattern.match(node.value):
                        yield f"{kind} {found[0]}"
            elif isinstance(node, ast.Call) and last_name(node.func) == "getLogger" and node.args:
                name = node.args[0]
                if isinstance(name, ast.Constant) or ast.unparse(name) == "__name__":
                    yield f"logger {name.value if isinstance(name, ast.Constant) else module}"
            elif isinstance(node, ast.ClassDef) and module.startswith("rocketflow.airflow."):
                yield f"Airflow class {module}.{node.name}"
            elif isinstance(node, ast.AnnAssign) and (tuple_name := last_name(node.target)) in OPTION_TUPLES:
                source = getattr(importlib.import_module(module), tuple_name)
                yield from (f"Spark option {tuple_name[:-8].lower()} {one.key}" for one in source)


def names_of_files() -> Iterator[str]:
    """Yield entry points and the paths of jobs and DAGs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group, points in {"console": project["scripts"], **project["entry-points"]}.items():
        yield from (f"entry point {group} {name} = {target}" for name, target in points.items())
    for folder in ("jobs", "airflow_dags"):
        yield from (f"file {path.relative_to(ROOT)}" for path in (ROOT / folder).glob("*.py"))


def commands(command: click.Command, name: str) -> Iterator[str]:
    """Yield each command below `command`, with its arguments and options."""
    for one in command.params:
        yield from (f"option {name} {flag}" for flag in (*one.opts, *one.secondary_opts))
    for sub, child in getattr(command, "commands", {}).items():
        yield f"command {name} {sub}"
        yield from commands(child, f"{name} {sub}")


def names_of_settings() -> Iterator[str]:
    """Yield the commands with their options, the fields of StoreConfig and what the doors export."""
    from dataclasses import fields

    import rocketflow_store
    from rocketflow.cli.app import command_tree

    yield from commands(command_tree(), "rocketflow")
    yield from (f"setting {one.name}" for one in fields(rocketflow_store.StoreConfig))
    yield from (f"environment variable {one.key}" for one in VARIABLES)
    yield from (f"export rocketflow_store {name}" for name in rocketflow_store.__all__)


def output_name(line: str) -> str:
    """Return the command of a line of COMMANDS."""
    return " ".join(word for word in line.split()[:2] if word.islower())


def names_in_output() -> Iterator[str]:
    """Yield the keys of the JSON that these commands print, and those that the reference describes for other ones.

    The tests of the other commands compare what they print with the reference (`tests.support.output_fields`).
    """
    from rocketflow.cli.app import run

    ran = {output_name(line) for line in COMMANDS if not line.startswith("submit ")}
    for command, fields in output_fields().items():
        if command not in ran:
            yield from (f"JSON {command}: {field}" for field in fields)
    with tempfile.TemporaryDirectory() as temporary:
        store, crashed, lines, conf = (Path(temporary) / name for name in ("store", "crashed", "lines", "conf"))
        conf.write_text("")
        lines.write_text('{"body": "b", "keys": "k"}\n{"body": "b", "delayTimeLevel": 1}\n{}\n')
        for golden, copy in (("features-53", store), ("crash-53-kill9", crashed)):
            copy.mkdir()
            extract(GOLDEN / golden / "store.tar.xz", copy)
        for path in (store, crashed):
            for line in COMMANDS:
                words = line.replace("STORE", str(path)).replace("INPUT", str(lines)).replace("CONF", str(conf)).split()
                out = io.StringIO()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                    run(words if words[0] == "submit" else [*words, "--json"])
                if words[0] == "submit":
                    continue  # there so that the ledger has lines
                name = output_name(line)
                for text in out.getvalue().splitlines():
                    if text.startswith(("{", "[")):
                        yield from (f"JSON {name}: {one[1:]}" for one in keys(json.loads(text)))


def stored_names() -> list[str]:
    """Return all names, each once, in order."""
    found = {*names_in_source(), *names_of_files(), *names_of_settings(), *names_in_output()}
    return sorted(found)


def test_stored_and_scripted_names_are_those_of_the_list() -> None:
    listed, found = LIST.read_text().splitlines(), stored_names()
    assert not [one for one in listed if one not in set(found)], "names that users rely on are missing"
    assert not [one for one in found if one not in set(listed)], f"add new names: python -m {__spec__.name}"


if __name__ == "__main__":
    LIST.write_text("".join(f"{one}\n" for one in stored_names()))
    sys.stdout.write(f"{LIST}\n")

"""Code in pages: each block is run by a test or named here with a reason, and each command has the options it gets."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from rocketflow.cli.app import command_tree, run
from rocketflow_store import Message, MessageStore
from tests.project.site import ROOT, tracked_pages
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK: Final = "rocketflow/spark/README.md"
RUN: Final = {
    ("README.md", "sh"): "tests/project/test_readme_blocks.py",
    ("README.md", "python"): "tests/project/test_readme_blocks.py",
    ("OPERATIONS.md", "python"): "tests/project/test_secure_broker.py",
    ("OPERATIONS.md", "text"): "tests/project/test_secure_broker.py",
    (SPARK, "python"): "tests/project/test_page_blocks.py",
    (SPARK, "sql"): "tests/project/test_page_blocks.py",
    ("jobs/examples/README.md", "sh"): "tests/rocketflow/spark/test_examples.py",
    ("rocketflow/starter/project/README.md", "sh"): "tests/rocketflow/starter/test_starter.py",
    ("rocketflow/client/README.md", "python"): "tests/rocketflow/client/test_readme.py",
    ("rocketflow/testing/README.md", "python"): "tests/rocketflow/testing/test_plugin.py",
    ("store/README.md", "python"): "tests/store/test_readme.py",
    ("tests/reliability/README.md", "python"): "tests/reliability/test_readme.py",
}
"""Pages and languages of blocks with the test that runs them."""
NOT_RUN: Final = {
    ("OPERATIONS.md", "sh"): "servers at RocketMQ's ports; tests/apache/test_quick_start.py runs both at free ones, "
    "tests/project/test_secure_broker.py those with accounts",
    (
        SPARK,
        "sh",
    ): "a cluster of three processes and its requeues: test_cluster.py, test_manual_requeue.py run the same",
    (SPARK, "text"): "names NameServers of a cluster; tests/apache/test_spark_network.py reads from real ones",
    ("airflow_dags/README.md", "sh"): "installs Airflow; tests/rocketflow/airflow has its own environment",
    ("airflow_dags/README.md", "python"): "needs Airflow; tests/rocketflow/airflow/dags uses the same operators",
    ("tests/apache/README.md", "sh"): "twenty minutes of tests",
    ("rocketflow/cli/reference/commands.md", "sh"): "one example a command, on stores that do not exist",
    ("rocketflow/kafka/README.md", "sh"): "needs a Kafka broker; tests/rocketflow/kafka runs the bridge both ways",
    (
        "rocketflow/testing/README.md",
        "sh",
    ): "needs Maven; tests/rocketflow/testing/test_cluster.py runs Python that way",
    ("rocketflow/quality/README.md", "sh"): "names a store with flights; README.md has the same steps on the demo's",
}
"""Pages and languages of blocks that no test runs, with the reason. Their commands are checked all the same."""
_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
_INLINE: Final = re.compile(r"`(rocketflow [^`\n]+)`")
_COMMAND: Final = re.compile(r"^(?: {4})?(?:rocketflow|make|pip|python|podman|spark-submit) ", re.M)
_SEPARATORS: Final = re.compile(r"\s(?:\||&&|;|&)\s")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code in a page."""

    page: str
    language: str
    text: str


@cache
def blocks() -> list[Block]:
    """Return all blocks of all pages."""
    pages = {page: (ROOT / page).read_text("utf-8") for page in tracked_pages()}
    return [Block(page, found[1], found[2]) for page, text in pages.items() for found in _FENCE.finditer(text)]


def commands(page: str) -> Iterator[list[str]]:
    """Yield the words of each `rocketflow` command in the shell blocks and in the inline code of `page`."""
    text = (ROOT / page).read_text("utf-8")
    lines = [line for one in blocks() if (one.page, one.language) == (page, "sh") for line in _lines(one.text)]
    for line in [*lines, *_INLINE.findall(_FENCE.sub("", text))]:
        for part in _SEPARATORS.split(re.sub(r"\s#\s.*", "", line)):
            with contextlib.suppress(ValueError):  # a quotation mark in inline code that is no shell's
                words = shlex.split(part)
                if words[:1] == ["rocketflow"]:
                    yield words[1:]


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


@cache
def options_in_help(*words: str) -> set[str]:
    """Return the options that `rocketflow WORDS --help` prints; there are none of a job that does not exist."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run([*words, "--help"])
    return set(re.findall(r"--[a-z-]+", printed.getvalue()))


@cache
def all_commands() -> Any:
    """Return the command `rocketflow` with all its subcommands."""
    return command_tree()


def problem(words: list[str]) -> str | None:
    """Return what is wrong with the command `rocketflow WORDS`, or None."""
    command = all_commands()
    known = {"--help", *(flag for one in command.params for flag in one.opts)}
    rest, group = list(words), []
    while rest and hasattr(command, "commands") and re.fullmatch(r"[a-z][A-Za-z-]*", rest[0]):
        if rest[0] not in command.commands:
            return f"no command {rest[0]}"
        group.append(rest.pop(0))
        command = command.commands[group[-1]]
        known |= {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    if command.context_settings.get("ignore_unknown_options"):  # the job or the bridge parses them
        job = rest[:1] if command.name == "submit" else []
        if any("/" in one or one.isupper() for one in job):
            return None  # a job of the user's own, or any job
        options = options_in_help(*group, *job)
        if not options:
            return f"no job {job}"
        known |= options
    given = rest[: rest.index("--")] if "--" in rest else rest
    unknown = [one for one in given if re.match(r"--[a-z]", one) and one.partition("=")[0] not in known]
    return f"no option {unknown}" if unknown else None


def test_every_block_is_run_or_named_with_a_reason() -> None:
    found = {(one.page, one.language) for one in blocks() if one.language}
    assert found == {*RUN, *NOT_RUN}
    assert [test for test in RUN.values() if not (ROOT / test).exists()] == []


@pytest.mark.parametrize("page", tracked_pages())
def test_commands_are_in_blocks_that_name_their_language(page: str) -> None:
    text = _FENCE.sub(lambda found: "" if found[1] else found[0], (ROOT / page).read_text("utf-8"))
    assert _COMMAND.findall(text) == []


@pytest.mark.parametrize("page", tracked_pages())
def test_commands_exist_and_have_the_options_that_they_are_given(page: str) -> None:
    wrong = [(words, found) for words in commands(page) if (found := problem(words)) is not None]
    assert wrong == []


def test_a_mistyped_command_or_option_is_found() -> None:
    assert problem(["store", "verfy", "/data/store"]) == "no command verfy"
    assert problem(["store", "verify", "/data/store", "--fix"]) == "no option ['--fix']"
    assert problem(["submit", "requeu", "--store", "/data/store"]) == "no job ['requeu']"
    assert problem(["submit", "requeue", "--stor", "/data/store"]) == "no option ['--stor']"
    assert problem(["submit", "stream", "--source", "/data/store", "--", "--master", "local"]) is None


@pytest.mark.skipif(LEVEL == "sample", reason="half a minute of Spark: RF_FAULTS=1 runs it")
@pytest.mark.spark
def test_blocks_of_the_spark_page_run(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with MessageStore.open(store) as opened:
        opened.put_message(Message("orders", b"{}", tags="paid")).raise_for_status()
    scope: dict[str, Any] = {}
    for one in blocks():
        if (one.page, one.language) == (SPARK, "python"):
            exec(re.sub(r"/data/(store|a|b)\b", str(store), one.text), scope)
    assert scope["orders"].count() == 1
    assert scope["stream"].isStreaming
    (query,) = (one.text for one in blocks() if (one.page, one.language) == (SPARK, "sql"))
    messages = spark.read.format("rocketflow").option("subscribe", "orders").option("includeProperties", "true")
    messages.load(str(store)).createOrReplaceTempView("messages")
    assert spark.sql(query).count() == 0

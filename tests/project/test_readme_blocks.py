"""Every code block of the README runs unchanged, on a store like the demo's, and every link has a target."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rocketflow.demo.flights import as_messages, load_flights
from rocketflow.testing import start_cluster
from rocketflow_store import MessageStore
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text("utf-8")
PAGES: Final = ("README.md", "OPERATIONS.md", "ROCKETMQ.md", "GLOSSARY.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
_BLOCK: Final = re.compile(r"^```(python|sh)\n(.*?)^```", re.M | re.S)
_ALL: Final = [(found[1], found[2]) for found in _BLOCK.finditer(README)]
BLOCKS: Final = [one for one in _ALL if "export " not in one[1]]
EXPORTS: Final = next(text for _, text in _ALL if "export " in text)
_EXPORTED: Final = re.compile(r"\b([A-Z]+)=(\S+)")
_USED: Final = re.compile(r"\$([A-Z]+)\b|environ\[\"([A-Z]+)\"\]")
_LINK: Final = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)")
ROWS: Final = 2_000


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("readme")
    with MessageStore.open(home / "store") as store:
        store.create_topic("flights", 4)
        flights = load_flights()
        known = flights.filter([plane == "N14228" for plane in flights["tailnum"].to_pylist()]).slice(0, 5)
        for rows in (flights.slice(0, ROWS), known):
            store.append_batch(as_messages(rows), topic="flights")
    return {name: value.replace("$DEMO", str(home)) for name, value in _EXPORTED.findall(EXPORTS) if name != "DEMO"}


def test_variables_are_exported() -> None:
    used = {name for _, text in BLOCKS for found in _USED.findall(text) for name in found if name}
    assert {"STORE", "CHECKPOINT"} <= used
    assert used == {name for name, _ in _EXPORTED.findall(EXPORTS)} - {"DEMO"}


@pytest.mark.spark
def test_python_blocks_run(
    spark: SparkSession,
    variables: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    scope: dict[str, object] = {"spark": spark}
    with start_cluster() as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.name_server_address)
        for language, text in BLOCKS:
            if language == "python":
                exec(compile(text, "README.md", "exec"), scope)
    shown = capsys.readouterr().out
    assert "avg(dep_delay)" in shown
    assert "[['o-1']]" in shown
    copied = spark.read.format("rocketflow").option("path", variables["STORE"]).option("subscribe", "copy").load()
    assert copied.count() == ROWS + 5


def test_commands_run(variables: dict[str, str], tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = []
    for language, text in BLOCKS:
        if language != "sh" or "make " in text or ("rocketflow submit" in text and LEVEL == "sample"):
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            env={**os.environ, **variables, "PATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        ran.append(done.stdout)
    assert "N14228" in ran[0]
    assert len(ran) == (1 if LEVEL == "sample" else 3)


@pytest.mark.parametrize("page", PAGES)
def test_links_have_targets(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for target, anchor in _LINK.findall(text):
        path = ROOT / target if target else ROOT / page
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)", path.read_text("utf-8"), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
            assert anchor in anchors, f"{target}#{anchor}"


def test_readme_is_short_and_begins_with_reasons_proofs_and_spark() -> None:
    assert len(README.splitlines()) <= 150
    first_screen = README.split("\n## ", 1)[0]
    assert len(first_screen.splitlines()) <= 35
    reasons = re.findall(r"^\| \*\*.*\*\*.* \| (.*) \|$", first_screen, re.M)
    assert [len(_LINK.findall(proof)) > 0 for proof in reasons] == [True] * 3
    assert 'spark.read.format("rocketflow")' in first_screen

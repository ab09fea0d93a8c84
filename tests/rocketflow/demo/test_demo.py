"""The demo as started by `make run`, and its care for the user's directories."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from rocketflow.demo.demo import EVENT_TIME, run_demo
from rocketflow.demo.flights import load_flights
from rocketflow.spark.stream.stream_job import parse_arguments, run
from rocketflow_store import StoreReader
from tests.support.output_fields import check_fields
from tests.support.trials import FULL, LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketflow.demo.steps import StreamJob


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from rocketflow.cli import main; main()", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def in_session(spark: SparkSession) -> StreamJob:
    """Return the stream job of a demo, run in a session that exists."""

    def stream(arguments: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run(spark, parse_arguments(arguments)).as_json("stream"))
        return found

    return stream


@pytest.mark.slow
@pytest.mark.spark
def test_demo_replaces_an_earlier_one_and_has_the_expected_results(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copies a part of the flights in the tests' Spark session; with the fast counts all, as `make run` does."""
    flights = load_flights()
    months = pc.value_counts(flights["month"]).field("values").to_pylist()  # in the order of each month's first row
    assert months == [1, *range(10, 13), *range(2, 10)]
    home = tmp_path / "demo"
    home.mkdir()
    (home / ".rocketflow-demo").touch()
    (home / "store").mkdir()
    (home / "store" / "left-over").touch()
    if LEVEL == "sample":
        flights = flights.slice(0, 60_000)
        monkeypatch.setattr("rocketflow.demo.flights.load_flights", lambda: flights)
        assert run_demo(store=None, directory=str(home), as_json=True, stream=in_session(spark)) == 0
        printed = capsys.readouterr().out
    else:
        done = demo("--dir", str(home), "--json")
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    facts = json.loads(printed.splitlines()[-1])
    check_fields("demo", facts)
    late = pc.filter(flights["dep_delay"], pc.greater(flights["dep_delay"], 0))
    if LEVEL != "sample":
        assert (len(flights), len(late), pc.sum(late).as_py()) == (336_776, 128_432, 5_056_783)
    assert (facts["appended"], facts["streamed"]) == (len(flights), len(flights))
    assert (facts["events"], facts["minutes"], facts["verified"]) == (len(late), pc.sum(late).as_py(), True)
    with StoreReader(home / "store") as reader:
        events = [reader.bounds("flight-delays", queue) for queue in reader.queues("flight-delays")]
        assert sum(high - low for low, high in events) == len(late)
    assert not (home / "store" / "left-over").exists()
    assert EVENT_TIME in printed


@pytest.mark.spark
def test_demo_copies_a_store_written_by_rocketmq(
    spark: SparkSession, golden_store: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs in the tests' Spark session."""
    source, home = str(golden_store("basic-53")), str(tmp_path / "demo")
    assert run_demo(store=source, directory=home, as_json=True, stream=in_session(spark)) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    check_fields("demo --store", facts)
    assert (facts["verified"], facts["streamed"]) == (True, 6000)


def test_directory_with_other_files_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mine").write_text("mine")
    done = demo("--dir", str(tmp_path))
    assert done.returncode == 2
    assert "holds files that are not a demo's" in done.stderr
    assert (tmp_path / "store" / "mine").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.spark
def test_the_network_demo_survives_a_killed_broker(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sends a part of the flights and reads them in the tests' Spark session; `make test-full` does as `make run`."""
    if FULL:
        done = demo("--network", "--dir", str(tmp_path / "demo"), "--json")
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout.splitlines()[-1])
        check_fields("demo --network", facts)
        assert facts["sent"] == 336_776
        assert 0 < facts["streamedBeforeKill"] < 336_776 <= facts["streamedBeforeKill"] + facts["streamed"]
        assert (facts["events"], facts["minutes"], facts["verified"]) == (128_432, 5_056_783, True)
        return
    (tmp_path / "demo").mkdir()
    for name in (".rocketflow-demo", "broker.log"):  # of an earlier demo
        (tmp_path / "demo" / name).touch()
    some = load_flights().slice(0, 20_000)
    monkeypatch.setattr("rocketflow.demo.flights.load_flights", lambda: some)
    assert (
        run_demo(store=None, directory=str(tmp_path / "demo"), as_json=True, network=True, stream=in_session(spark))
        == 0
    )
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    check_fields("demo --network", facts)
    assert (facts["sent"], facts["streamed"], facts["verified"]) == (20_000, 20_000, True)
    late = pc.filter(some["dep_delay"], pc.greater(some["dep_delay"], 0))
    assert (facts["events"], facts["minutes"]) == (len(late), pc.sum(late).as_py())

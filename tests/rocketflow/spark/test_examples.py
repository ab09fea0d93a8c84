"""The examples run unchanged, on a store like the demo's."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql import SparkSession

from rocketflow_store import Message
from tests.support.spark_stores import append
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import Row

pytestmark = pytest.mark.spark
EXAMPLES: Final = Path(__file__).parents[3] / "jobs" / "examples"
NAMES: Final = sorted(one.name for one in EXAMPLES.glob("*.py"))
HOUR_MS: Final = 3_600_000
BEGIN_MS: Final = 1_357_020_000_000  # 2013-01-01T06:00Z
CARRIERS: Final = ("AA", "UA", "US")
COUNT: Final = 300
DELAYS: Final = [flight % 7 - 3 for flight in range(COUNT)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("examples") / "store"
    flights, delays = [], []
    for number, delay in enumerate(DELAYS):
        carrier, plane, at_ms = CARRIERS[number % 3], f"N{number}", BEGIN_MS + number * HOUR_MS // 10
        body = {"origin": "JFK", "carrier": carrier, "dest": "SFO", "tailnum": plane, "dep_delay": delay, "distance": 9}
        more: dict[str, Any] = {"tags": carrier, "born_timestamp": at_ms, "queue_id": number % 4}
        flights.append(Message("flights", json.dumps(body).encode(), **more))
        if delay > 0:
            late = {"dest": "SFO", "tailnum": plane, "delay": delay}
            delays.append(Message("flight-delays", json.dumps(late).encode(), **more))
    append(path, [*flights, *delays])
    return path


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: object, code: int = 0) -> None:
    """Run an example in the session of the tests, which stays open, and check its exit code."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert ended.value.code == code


def rows(spark: SparkSession, path: Path) -> list[Row]:
    return spark.read.parquet(str(path)).collect()


def test_batch_from_json(
    spark: SparkSession, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "batch_from_json.py", "--store", store)
    shown = capsys.readouterr().out
    for number, carrier in enumerate(CARRIERS):
        mean = round(sum(DELAYS[number::3]) / len(DELAYS[number::3]), 1) + 0.0  # no -0.0
        assert [" ".join(line.split()) for line in shown.splitlines() if f"|{carrier:>7}|" in line] == [
            f"| JFK| {carrier}| {COUNT // 3}| {mean}|"
        ]


@pytest.mark.skipif(LEVEL == "sample", reason="to_parquet is sampled: RF_FAULTS=1 runs it")
def test_windowed_delays(spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    run(monkeypatch, "windowed_delays.py", "--store", store, "--out", out, "--checkpoint", tmp_path / "c")
    windows = {(row["hour"].hour, row["hour"].day, row["carrier"]): row["count"] for row in rows(spark, out)}
    complete = COUNT // 10 - 2  # the watermark is an hour before the newest message
    assert len({(day, hour) for hour, day, _ in windows}) >= complete
    assert sum(windows.values()) >= complete * 10
    assert set(windows.values()) <= {3, 4}


@pytest.mark.skipif(LEVEL == "sample", reason="the two other streams are sampled: RF_FAULTS=1 runs it")
def test_join_streams(spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    run(monkeypatch, "join_streams.py", "--store", store, "--out", out, "--checkpoint", tmp_path / "c")
    joined = {row["flight_tailnum"]: row["delay_delay"] for row in rows(spark, out)}
    assert joined == {f"N{number}": delay for number, delay in enumerate(DELAYS) if delay > 0}


def test_to_parquet_writes_each_message_once(
    spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    arguments = ("--store", store, "--out", out, "--checkpoint", tmp_path / "c", "--batch", 120)
    run(monkeypatch, "to_parquet.py", *arguments)
    first = rows(spark, out)
    run(monkeypatch, "to_parquet.py", *arguments)
    places = sorted((row["queueId"], row["queueOffset"]) for row in rows(spark, out))
    assert places == sorted({(number % 4, number // 4) for number in range(COUNT)})
    assert len({row["batch"] for row in first}) == -(-COUNT // 120)


def test_kafka_or_rocketflow(
    spark: SparkSession, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "kafka_or_rocketflow.py", "--rocketflow", store)
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if "|  " in line and "carrier" not in line] == [
        f"|{carrier:>7}|{COUNT // 3:>5}|" for carrier in CARRIERS
    ]


@pytest.mark.parametrize("name", NAMES if LEVEL != "sample" else NAMES[:1])
def test_example_on_a_missing_store_prints_one_error_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    missing = tmp_path / "missing"
    arguments = ["--rocketflow" if name == "kafka_or_rocketflow.py" else "--store", missing]
    if '"--out"' in (EXAMPLES / name).read_text("utf-8"):
        arguments += ["--out", tmp_path / "out", "--checkpoint", tmp_path / "checkpoint"]
    run(monkeypatch, name, *arguments, code=2)
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {missing}: ")
    assert printed.count("\n") == 1


def test_every_example_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert [one.name for one in EXAMPLES.glob("*.py") if f"| `{one.name}` |" not in listed] == []

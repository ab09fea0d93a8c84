"""The demo as started by `make run`, and its care for the user's directories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from rocketflow.client import Message as ClientMessage
from rocketflow.client import Producer
from rocketflow.client.errors import UnreachableError
from rocketflow.client.produce.errors import SendFailedError
from rocketflow.demo.demo import EVENT_TIME, run_demo
from rocketflow.demo.flights import load_flights
from rocketflow.demo.home import demo_home
from rocketflow.demo.steps import DemoFailedError
from rocketflow.errors import UsageError
from rocketflow.spark.stream.stream_job import parse_arguments, run
from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from tests.support.output_fields import check_fields
from tests.support.trials import FULL, LEVEL, environment
from tests.support.workload import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketflow.client import SendResult
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


@pytest.mark.skipif(LEVEL == "sample", reason="a demo of its own: RF_FAULTS=1 runs it")
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


def files(home: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in home.rglob("*") if one.is_file()}


def no_demo() -> None:
    """Fail in place of the steps of a demo, which are not to be run."""
    raise DemoFailedError("ran")


@pytest.fixture
def demo_dir(tmp_path: Path) -> Path:
    """Return a directory in which a demo has made a store, and which has a user's files since."""
    home = tmp_path / "demo"
    with demo_home(home):
        filled(home / "store")
        (home / "checkpoint").mkdir()
    (home / "flights.json").write_text("{}")
    filled(home / "orders")
    return home


def filled(path: Path) -> None:
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:  # type: ignore[arg-type]
        store.put_message(Message("t", b"one"))


def test_demo_deletes_what_a_demo_made_and_keeps_the_files_of_a_user(demo_dir: Path) -> None:
    kept = files(demo_dir / "orders")
    with demo_home(demo_dir):
        assert sorted(one.name for one in demo_dir.iterdir()) == [".rocketflow-demo", "flights.json", "orders"]
        assert files(demo_dir / "orders") == kept
        assert (demo_dir / "flights.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["store", "checkpoint", "kv.json"])
def test_demo_refuses_an_entry_of_a_user_that_has_a_name_of_its_own(demo_dir: Path, name: str) -> None:
    """A store that replaced the demo's (the system may use its inode again), a link, and a file."""
    path = demo_dir / name
    if path.is_dir():
        shutil.rmtree(path)
    if name == "store":
        filled(path)
    elif name == "checkpoint":
        path.symlink_to(demo_dir / "orders")
    else:
        path.write_text("mine")
    before = files(demo_dir)
    with pytest.raises(UsageError, match=f"{name}: was not made by a demo"), demo_home(demo_dir):
        no_demo()
    assert files(demo_dir) == before


@pytest.mark.parametrize("name", ["store", "orders"])
def test_demo_with_a_running_store_in_its_directory_ends_with_75_and_names_the_pid(demo_dir: Path, name: str) -> None:
    command = [sys.executable, "-m", "tests.reliability.lock_holder", str(demo_dir / name), "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment()) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        done = demo("--dir", str(demo_dir))
        assert (done.returncode, f"locked by pid {holder.pid} " in done.stderr) == (75, True), done.stderr
        assert all((demo_dir / one / "commitlog").is_dir() for one in ("store", "orders"))
        holder.communicate()


def test_second_demo_in_a_directory_ends_with_75_and_names_the_first(tmp_path: Path) -> None:
    with demo_home(tmp_path / "demo"):
        done = demo("--dir", str(tmp_path / "demo"), "--network")
        assert (done.returncode, f"a demo runs in it (pid {os.getpid()})" in done.stderr) == (75, True), done.stderr
    with demo_home(tmp_path / "demo"):
        pass


def test_store_to_copy_within_the_demos_directory_is_refused(demo_dir: Path) -> None:
    done = demo("--dir", str(demo_dir), "--store", str(demo_dir / "store"))
    assert (done.returncode, "lies in the demo's directory" in done.stderr) == (2, True), done.stderr
    assert (demo_dir / "store" / "commitlog").is_dir()


def test_what_a_killed_demo_made_is_deleted(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    with demo_home(home):
        filled(home / "store")
        mark = (home / ".rocketflow-demo").read_bytes()
    (home / ".rocketflow-demo").write_bytes(mark)  # a kill leaves the mark of the demo's begin
    with demo_home(home):
        assert [one.name for one in home.iterdir()] == [".rocketflow-demo"]


class CutProducer(Producer):
    """Stores a part of its first batch, without an answer: a kill may cut the broker's write."""

    is_cut = False

    async def send_batch(self, messages: Sequence[ClientMessage], **more: Any) -> SendResult:
        if self.is_cut:
            return await super().send_batch(messages, **more)
        self.is_cut = True
        await super().send_batch(messages[:173], **more)
        raise SendFailedError(messages[0].topic, [UnreachableError("127.0.0.1:1", "was killed", sent=True)])


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
    monkeypatch.setattr("rocketflow.demo.network.Producer", CutProducer)
    assert (
        run_demo(store=None, directory=str(tmp_path / "demo"), as_json=True, network=True, stream=in_session(spark))
        == 0
    )
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    check_fields("demo --network", facts)
    assert (facts["sent"], facts["streamed"], facts["verified"]) == (20_000, 20_000, True)
    late = pc.filter(some["dep_delay"], pc.greater(some["dep_delay"], 0))
    assert (facts["events"], facts["minutes"]) == (len(late), pc.sum(late).as_py())

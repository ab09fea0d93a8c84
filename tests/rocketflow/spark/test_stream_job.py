"""The stream job: a plain copy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from rocketflow.process.job_entry import run_job
from rocketflow.process.job_errors import exit_code_of
from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.stream.job_options import job_sink_options, job_source_options
from rocketflow.spark.stream.stream_job import StreamJob, main, parse_arguments, preflight, run
from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.delivery.delay.delivery import deliver_due
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from tests.support.spark_stores import append, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOW = 1_800_000_000_000


def test_copy_of_a_delivered_delayed_message_is_not_delayed_again(spark: SparkSession, tmp_path: Path) -> None:
    """A delivered message still has the properties of its delay, which would delay the copy."""
    store, clock = tmp_path / "s", ManualClock(NOW)
    config = StoreConfig(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=6000, clock=clock)
    with MessageStore.open(store, config) as opened:
        for number in range(5):
            late = {"DELAY": "1", "own": str(number)}
            assert opened.put_message(Message("t", b"%d" % number, queue_id=0, properties=late)).stored
        clock.set(NOW + 5_000)
        assert deliver_due(opened).rows == 5
        waiting = opened.bounds(SCHEDULE_TOPIC, 0)
    job = StreamJob(
        str(store), "t", str(store), str(tmp_path / "c"), topic="copy", options={"includeProperties": "true"}
    )
    assert run(spark, job).rows == 5
    with MessageStore.open(store) as opened:
        assert opened.bounds(SCHEDULE_TOPIC, 0) == waiting
        copied = [one for queue in opened.queues("copy") for one in opened.get_message("copy", queue, 0).messages]
        assert sorted((one.body, one.properties["own"]) for one in copied) == [(b"%d" % n, str(n)) for n in range(5)]


def ended(spark: SparkSession, job: StreamJob, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(Exception) as caught:
        run(spark, job)
    code = exit_code_of(caught.value)
    return code, capsys.readouterr().err.splitlines()[-1]


def test_job_exits_with_the_code_of_its_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors of Spark's Python workers arrive as the text of a traceback."""
    store, other = tmp_path / "s", tmp_path / "other"
    append(store, numbered("t", range(100), queues=1))
    append(other, numbered("t", range(3), queues=1))
    job = StreamJob(str(store), "t", str(tmp_path / "out"), str(tmp_path / "c"), topic="copy")
    assert run(spark, job).rows == 100
    code, line = ended(spark, replace(job, source=str(other)), capsys)
    assert (code, line.startswith("error: data loss: topic t queue 0")) == (3, True)
    append(other, numbered("u", range(3)))
    code, line = ended(spark, replace(job, source=str(other), subscribe="u"), capsys)
    assert (code, line.startswith("error: the checkpoint is of topic t")) == (2, True)
    given = {"startingOffsets": '{"t": {"0": 5000}}'}
    code, line = ended(spark, replace(job, checkpoint=str(tmp_path / "c2"), options=given), capsys)
    assert (code, line.startswith("error: option startingOffsets=")) == (2, True)


def test_error_outside_of_rocketflow_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("rocketflow.nowhere.OddError: made up", "ValueError: \x1b[2J", "java.lang.Exception: x", ""):
        assert exit_code_of(RuntimeError(text)) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_message_of_a_jvm_error_is_printed(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        spark._jvm.java.net.URI("::")  # type: ignore[union-attr, operator]
    assert exit_code_of(caught.value) == 1
    assert capsys.readouterr().err == "error: Expected scheme name at index 0: ::\n"


def test_job_without_end_does_not_check_topics(tmp_path: Path) -> None:
    """The topics may be created later, so the files that list topics are not read."""
    append(tmp_path / "s", numbered("orders", range(3)))
    (tmp_path / "s" / "config" / "topics.json").write_text("{")
    job = StreamJob(str(tmp_path / "s"), "missing", str(tmp_path / "o"), "c", topic="copy", trigger="5 seconds")
    preflight(job)
    with pytest.raises(StoreError):
        preflight(replace(job, trigger="available-now"))


def test_wrong_arguments_fail_before_a_jvm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rocketflow.spark.session.build_session", lambda *_: pytest.fail("a session was begun"))
    append(tmp_path / "s", numbered("orders", range(3)))
    words = ["--source", str(tmp_path / "s"), "--sink", str(tmp_path / "o"), "--topic", "c", "--checkpoint", "c"]
    for more, message in (
        (["--subscribe", "oders"], "no topic oders in the store (did you mean orders?)"),
        (["--subscribe", "orders", "--trigger", "sometimes"], "--trigger 'sometimes': available-now, or an interval"),
        (["--subscribe", "orders", "--trigger", "5 parsecs"], "--trigger '5 parsecs': available-now, or an interval"),
        (["--subscribe", "orders", "--sink", "a=/tmp/a,b=/tmp/b"], "a sink writes to one store: give its directory"),
    ):
        assert run_job(partial(main, [*words, *more])) == 2
        assert message in capsys.readouterr().err
    preflight(parse_arguments([*words, "--subscribe", "oders", "--trigger", "1 minute 30 seconds"]))
    with MessageStore.open(tmp_path / "s") as store:
        store.create_topic("later")
    preflight(parse_arguments([*words, "--subscribe", "later,orders"]))
    for option, argument in (("Path=/elsewhere", "--source"), ("subscribe=t", "--subscribe")):
        with pytest.raises(OptionError, match=f"use {argument} instead"):
            preflight(parse_arguments([*words, "--subscribe", "orders", "--option", option]))
    for option, argument in (("path=/elsewhere", "--sink"), ("Topic=t", "--topic")):
        with pytest.raises(OptionError, match=f"use {argument} instead"):
            preflight(parse_arguments([*words, "--subscribe", "orders", "--sink-option", option]))


@pytest.mark.parametrize("place", ["127.0.0.1:9876", "names-1:9876;names-2:9876", "[::1]:9876"])
def test_address_as_source_and_sink_is_that_of_name_servers(place: str) -> None:
    assert job_source_options(place, "t", {}) == {
        "startingOffsets": "earliest",
        "namesrvAddr": place,
        "subscribe": "t",
    }
    assert job_sink_options(place, "u", {}) == {"namesrvAddr": place, "topic": "u"}


def test_other_sources_are_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store:1").mkdir()
    for place in ("/data/store", "a=/data/a,b=/data/b", "store", "C:/9876", "store:1"):
        assert job_source_options(place, "t", {})["path"] == place
    with pytest.raises(OptionError, match="use --source instead"):
        job_source_options("127.0.0.1:9876", "t", {"namesrvAddr": "x"})

"""A query starts although its driver was killed while it wrote the first entry of the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketflow.kafka import bridge_job
from rocketflow.quality.jobs import quality_job
from rocketflow.spark.shared.checkpoint import drop_unfinished_first_entry
from rocketflow.spark.stream import stream_job
from rocketflow.spark.stream.stream_job import StreamJob, run
from rocketflow_store import StoreReader
from tests.support.spark_stores import append, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

LEFT = ".0.c2c9f420-63b1-40d2-9072-bb6f3bb7dc25.tmp"


@pytest.mark.spark
def test_job_starts_after_an_unfinished_first_checkpoint_entry(spark: SparkSession, tmp_path: Path) -> None:
    store, checkpoint = tmp_path / "s", tmp_path / "cp"
    append(store, numbered("t", range(50)))
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / LEFT).touch()
    job = StreamJob(str(store), "t", str(store), str(checkpoint), topic="copy")
    assert run(spark, job).rows == 50
    with StoreReader(store) as reader:
        assert sum(reader.max_offset("copy", queue) for queue in reader.queues("copy")) == 50


@pytest.mark.parametrize("beside", ["0", ".0.crc", "1", ".1.c2c9f420-63b1-40d2-9072-bb6f3bb7dc25.tmp", "notes"])
def test_checkpoint_with_other_files_is_not_changed(tmp_path: Path, beside: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    for name in (LEFT, beside):
        (tmp_path / "offsets" / name).touch()
    assert drop_unfinished_first_entry(str(tmp_path)) == []
    (tmp_path / "offsets" / beside).rename(tmp_path / "commits" / beside)
    assert drop_unfinished_first_entry(f"file://{tmp_path}") == []
    assert drop_unfinished_first_entry(f"hdfs://host{tmp_path}") == []
    assert (tmp_path / "offsets" / LEFT).exists()
    (tmp_path / "commits" / beside).unlink()
    assert drop_unfinished_first_entry(f"file:{tmp_path}") == [tmp_path / "offsets" / LEFT]
    assert drop_unfinished_first_entry(str(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("main", "rest"),
    [
        (stream_job.main, "--source s --subscribe t --sink s --topic c"),
        (quality_job.main, "--source s --subscribe t --suite x.json --good-topic g --quarantine-topic q"),
        (bridge_job.main, "--direction store-to-kafka --bootstrap localhost:9 --store s --topics t"),
    ],
)
@pytest.mark.parametrize("under", ["", "/below", "file:"])
def test_a_checkpoint_that_is_no_directory_is_a_usage_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    main: Callable[[list[str]], int],
    rest: str,
    under: str,
) -> None:
    wrong = tmp_path / "passwd"
    wrong.write_text("x")
    given = f"{under}{wrong}" if under == "file:" else f"{wrong}{under}"
    for value, message in ((given, f"{wrong} is not a directory"), ("", "names no directory")):
        with pytest.raises(SystemExit) as ended:
            main([*rest.split(), "--checkpoint", value])
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert "--checkpoint" in error
        assert message in error
    assert wrong.read_text() == "x"

"""The rebuild on Spark: the same tasks on executors, the same files."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketflow.process.job_entry import run_job
from rocketflow.process.job_errors import exit_code_of
from rocketflow.spark.rebuild import rebuild_job
from rocketflow.spark.rebuild.rebuild_engine import SparkEngine, deal
from rocketflow.spark.rebuild.rebuild_job import RebuildJob, main, parse_arguments
from rocketflow_store import MessageStore, StoreConfig, StoreReader
from rocketflow_store.files.mapped.log_directories import LogDirectories
from rocketflow_store.files.remote import RemoteDirectory
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.log_ranges import LogRange
from rocketflow_store.rebuild.log_source import LocalLog
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from rocketflow_store.rebuild.scan_task import QueueChoice, ScanSettings, ScanTask, run_scan
from tests.support import forged_store, queue_gaps
from tests.support.damage import flip
from tests.support.every_kind import derived, make
from tests.support.golden import GOLDEN
from tests.support.maven import JarsNotFetchedError
from tests.support.output_fields import check_fields
from tests.support.s3_server import s3_server
from tests.support.trials import LEVEL

pytestmark = pytest.mark.spark
CONF = GOLDEN / "basic-53" / "broker.properties"
PROFILES = [("basic-53", "5.3", "5.5"), ("basic-55", "5.5", "5.3")]


def files_of(path: Path) -> list[bytes]:
    """Return the queue files, sorted by name, then the index files in their order."""
    found = [one for room in ("consumequeue", "index") for one in sorted((path / room).rglob("*"))]
    return [one.read_bytes() for one in found if one.is_file()]


def test_rebuild_makes_the_files_that_apache_wrote(
    spark: SparkSession,
    golden_store: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, golden = tmp_path / "s", golden_store("basic-53")
    shutil.copytree(golden, path)
    for room in ("consumequeue", "index"):
        shutil.rmtree(path / room)
    monkeypatch.setattr(
        rebuild_job, "run_in_own_session", lambda job: rebuild_job.run(spark, job, rebuild_job.print_progress())
    )
    arguments = ["--store", str(path), "--config", str(CONF)]
    assert main([*arguments, "--dry-run"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert not (path / "index").exists()
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    done = json.loads(out)
    check_fields("submit rebuild_index", dry, done)
    assert files_of(path) == files_of(golden)
    assert (done["job"], done["engine"], done["swapped"], dry["swapped"]) == ("rebuild_index", "spark", True, False)
    assert done["rows"] == done["records"] == dry["records"] == 6000
    assert done["files"] == dry["files"]
    assert re.search(r"bytes of log, [0-9,]+ MB/s, 0 s left$", err.strip())


@pytest.mark.parametrize(("name", "own", "other"), PROFILES if LEVEL != "sample" else PROFILES[:1])
def test_rebuild_with_a_profile_makes_the_files_of_a_local_one(
    spark: SparkSession,
    golden_store: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    own: str,
    other: str,
) -> None:
    monkeypatch.setattr(rebuild_job, "run_in_own_session", lambda job: rebuild_job.run(spark, job))
    conf = CONF.parents[1] / name / CONF.name
    config = StoreConfig.from_broker_conf(conf)
    path, local = tmp_path / "s", tmp_path / "local"
    for one in (path, local):
        shutil.copytree(golden_store(name), one)
        for room in ("consumequeue", "index"):
            shutil.rmtree(one / room)
    for profile in (other, own):
        assert main(["--store", str(path), "--config", str(conf), "--profile", profile]) == 0
        printed = json.loads(capsys.readouterr().out)
        result = rebuild_store(local, RebuildRequest(profile=profile), config)
        assert (printed["profile"], printed["indexEntries"]) == (profile, result.index_entries)
        assert files_of(path) == files_of(local)
        assert (files_of(path) == files_of(golden_store(name))) == (profile == own)
        assert (path / "checkpoint").read_bytes() == (local / "checkpoint").read_bytes()
        assert verify_store(path, config).findings == []


@pytest.mark.skipif(LEVEL == "sample", reason="test_remote_rebuild.py does so without Spark: RF_FAULTS=1 runs it")
def test_rebuild_from_a_backup_in_s3_into_another_bucket(spark: SparkSession, tmp_path: Path) -> None:
    """Executors read ranges of the log from the backup, and write the files into the target."""
    path = tmp_path / "s"
    make(path, 1, 300)
    try:
        with s3_server(tmp_path / "s3") as server:
            backup, target = RemoteDirectory(server.uri("backup")), RemoteDirectory(server.uri("made"))
            for one in sorted(path.rglob("*")):
                if one.is_file():
                    backup.put_file(str(one.relative_to(path)), str(one))
            request = RebuildRequest(target=target.uri, scratch=str(tmp_path / "scratch"))
            result = rebuild_job.run(spark, RebuildJob(backup.uri, request))
            made = {name: target.read(name) for name, _ in target.files(recursive=True)}
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    assert (result.records, result.swapped) == (300, True)
    wanted = derived(path)
    assert sorted(made.values()) == sorted(wanted.values())
    assert {name for name in made if not name.startswith("index")} < wanted.keys()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_damaged_and_forged_records_give_the_same_rebuild_as_on_one_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A message that lost its place, and a damaged record around forged ones: the same files, findings, exit code."""
    gap, forged = tmp_path / "gap", tmp_path / "forged"
    written = queue_gaps.made(gap, 40)
    queue_gaps.hit(written, gap, ("orders", 0, 17), "queueOffset", 2)
    begin, _ = forged_store.made(forged, "middle", crc=False)
    flip(forged / "commitlog" / f"{0:020d}", begin + 2)
    for path, config in ((gap, queue_gaps.CONFIG), (forged, forged_store.CONFIG)):
        for room in ("consumequeue", "index"):
            shutil.rmtree(path / room)
        here = tmp_path / f"{path.name}-here"
        shutil.copytree(path, here)
        local = rebuild_store(here, config=config)
        done = rebuild_store(path, config=config, engine=SparkEngine(spark))
        assert (done.exit_code, done.records) == (local.exit_code, local.records) == (3, local.records)
        assert [(one["offset"], one["why"]) for one in done.damaged] == [
            (one["offset"], one["why"]) for one in local.damaged
        ]
        assert files_of(path) == files_of(here)
        with StoreReader(path, config) as reader:
            assert "secret" not in reader.topics()


@pytest.mark.parametrize("count", [0, 1, 2, 7, 28, 1000])
@pytest.mark.parametrize("workers", [1, 2, 16])
def test_shares_keep_the_order_of_tasks_and_the_last_have_one_each(count: int, workers: int) -> None:
    shares = deal(range(count), workers)
    sizes = [len(one) for one in shares]
    assert [task for share in shares for task in share] == list(range(count))
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes, default=0) <= 4
    assert sizes[-workers:] == [1] * min(workers, len(sizes))


def test_executor_that_does_not_see_the_store_fails_the_rebuild(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = LogRange(str(tmp_path / "elsewhere" / f"{0:020d}"), 0, 0, 1000, 1000)
    task = ScanTask(0, missing, ScanSettings(None, LocalLog(LogDirectories((tmp_path,)), 1000), QueueChoice(), ()))
    with pytest.raises(Exception, match="every executor must see the store") as caught:
        SparkEngine(spark).run(run_scan, [task], "scan", lambda _: None)
    assert exit_code_of(caught.value) == 2
    assert str(missing.path) in capsys.readouterr().err
    side = str(tmp_path / "not-shared")
    beside = replace(task, settings=replace(task.settings, side=side))
    with pytest.raises(Exception, match=f"{side}: .*every executor must see the store") as caught:
        SparkEngine(spark).run(run_scan, [beside], "scan", lambda _: None)
    assert exit_code_of(caught.value) == 2


def test_wrong_arguments_fail_before_a_jvm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rocketflow.spark.session.build_session", lambda *_: pytest.fail("a session was begun"))
    assert run_job(partial(main, ["--store", str(tmp_path / "none")])) == 2
    with MessageStore.open(tmp_path / "s"):
        assert run_job(partial(main, ["--store", str(tmp_path / "s")])) == 75
    assert str(os.getpid()) in capsys.readouterr().err
    for wrong in (["--queue", "1"], ["--only", "index", "--topic", "t"], ["--only", "checkpoint"]):
        with pytest.raises(SystemExit) as caught:
            main(["--store", str(tmp_path / "s"), *wrong])
        assert caught.value.code == 2
    given = parse_arguments(["--store", "s", "--topic", "a", "--topic", "b", "--queue", "3", "--wait", "--force"])
    wanted = RebuildRequest(None, frozenset("ab"), 3, dry_run=False, force=True, wait=True)
    assert given == RebuildJob("s", wanted)

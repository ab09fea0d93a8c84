"""`rebuild` of logs in object storage (a real S3 server), and to targets there: the same bytes as a local one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from rocketflow_store.files.mapped.remote_log import RemoteLogFile
from rocketflow_store.files.remote import RemoteDirectory
from rocketflow_store.model.errors import NotAStoreError, RemoteStoreError, StoreVersionError
from rocketflow_store.rebuild import log_ranges, upload
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from tests.support.damage import flip
from tests.support.every_kind import SIZES, assert_same, derived, everything, lose, make
from tests.support.maven import JarsNotFetchedError
from tests.support.s3_server import BUCKET, IDENTITY, SECRET, S3Server, s3_server
from tests.support.trials import COMMAND_LINE, LEVEL, environment


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    try:
        with s3_server(tmp_path_factory.mktemp("s3")) as server:
            yield server
    except JarsNotFetchedError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every file of a small log into several ranges."""
    monkeypatch.setattr(log_ranges, "LEAST_RANGE", 5000)
    monkeypatch.setattr(log_ranges, "MOST_RANGE", 5000)


def put(uri: str, path: Path) -> None:
    """Upload a backup of a store."""
    there = RemoteDirectory(uri)
    for one in sorted(path.rglob("*")):
        if one.is_file():
            there.put_file(str(one.relative_to(path)), str(one))


def get(uri: str, path: Path) -> Path:
    there = RemoteDirectory(uri)
    for name, _ in there.files(recursive=True):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(there.read(name))
    return path


@pytest.mark.skipif(LEVEL == "sample", reason="a server of its own: RF_FAULTS=1 runs it")
def test_rebuild_from_a_backup_in_s3(s3: S3Server, tmp_path: Path) -> None:
    path, target = tmp_path / "s", tmp_path / "target"
    make(path, 70)
    wanted = derived(path)
    put(s3.uri("one"), path)
    preview = rebuild_store(s3.uri("one"), RebuildRequest(target=str(target), dry_run=True))
    assert not target.exists()
    made = rebuild_store(s3.uri("one"), RebuildRequest(target=str(target)))
    assert (made.records, made.units, made.swapped) == (preview.records, preview.units, True)
    assert SECRET not in str(made.as_dict())
    assert_same(derived(target), wanted)
    assert sorted(one.name for one in target.iterdir()) == [*("batchconsumequeue", "consumequeue", "index", "lock")]
    assert not rebuild_store(s3.uri("one"), RebuildRequest(target=str(target))).swapped
    remote = s3.uri("made")
    made = rebuild_store(s3.uri("one"), RebuildRequest(target=remote))
    assert_same(derived(get(remote, tmp_path / "got")), wanted)
    with pytest.raises(StoreVersionError, match=r"has \d+ files in consumequeue/") as caught:
        rebuild_store(s3.uri("one"), RebuildRequest(target=remote))
    assert SECRET not in str(caught.value)


def test_rebuild_from_a_remote_log_swaps_into_its_store_only(s3: S3Server, tmp_path: Path) -> None:
    """Read from the backup, swapped into its store; a store with another log is refused."""
    path, other = tmp_path / "s", tmp_path / "other"
    make(path, 71)
    make(other, 72, 900)
    wanted = derived(path)
    put(s3.uri("two/commitlog"), path / "commitlog")
    lose(path)
    request = RebuildRequest(log=s3.uri("two/commitlog"))
    assert rebuild_store(path, request, SIZES).swapped
    assert_same(derived(path), wanted)
    with MessageStore.open(path, SIZES) as store:
        assert store.recovery.healed == ()
    before = everything(other)
    with pytest.raises(StoreVersionError, match=r"does not have the same files as s3://.*; give a --target"):
        rebuild_store(other, request, SIZES)
    assert everything(other) == before
    lose(path)
    rebuild_store(path, RebuildRequest(target=s3.uri("two-made")), SIZES)
    assert_same(derived(get(s3.uri("two-made"), tmp_path / "got")), wanted)
    assert derived(path) == {}


@pytest.mark.parametrize("kind", ["file URI", "directory"])
def test_log_and_target_by_file_uri_or_directory(kind: str, tmp_path: Path) -> None:
    path, backup, target = tmp_path / "s", tmp_path / "backup", tmp_path / "target"
    make(path, 73)
    flip(sorted((path / "commitlog").iterdir())[1], 9000)
    shutil.copytree(path, backup)
    lose(path)
    shutil.copytree(path, tmp_path / "local")
    wanted = rebuild_store(tmp_path / "local", config=SIZES)
    given = backup.as_uri() if kind == "file URI" else str(backup)
    made = rebuild_store(path, RebuildRequest(log=given, target=target.as_uri()), SIZES)
    assert_same(derived(target), derived(tmp_path / "local"))
    assert (made.exit_code, len(made.damaged)) == (3, len(wanted.damaged))
    assert made.damaged[0]["physicalOffset"] == wanted.damaged[0]["physicalOffset"]
    assert derived(path) == {}


def test_storage_that_refuses_or_fails_raises(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, target = tmp_path / "s", tmp_path / "target"
    make(path, 74, 100)
    put(s3.uri("three"), path)
    for uri, kind, exit_code in (
        (s3.uri("three", secret="a-wrong-secret"), RemoteStoreError, 1),
        (s3.uri("nothing"), NotAStoreError, 2),
        (s3.uri("three") + "&secret_key=abc123", NotAStoreError, 2),
        ("memory://three", NotAStoreError, 2),
        ("odd+scheme://three", NotAStoreError, 2),
    ):
        with pytest.raises(kind) as caught:
            rebuild_store(uri, RebuildRequest(target=str(target)))
        assert caught.value.exit_code == exit_code
        assert not {one for one in (SECRET, "a-wrong-secret", "abc123") if one in str(caught.value)}
        assert not target.exists()
    right, reads = RemoteLogFile.populate, []

    def cut_off(mapped: RemoteLogFile, start: int, stop: int) -> object:
        reads.append(start)
        if len(reads) == 30:
            for name, _ in RemoteDirectory(s3.uri("three")).below("commitlog").files():
                RemoteDirectory(s3.uri("three/commitlog")).remove(name)
        return right(mapped, start, stop)

    monkeypatch.setattr(RemoteLogFile, "populate", cut_off)
    rebuild_store(path, config=SIZES)
    before = everything(path)
    with pytest.raises(RemoteStoreError) as caught_late:
        rebuild_store(path, RebuildRequest(log=s3.uri("three"), target=str(target)), SIZES)
    assert "commitlog/" in caught_late.value.uri
    assert everything(path) == before
    assert everything(target).keys() <= {"lock"}


def test_stopped_upload_is_removed(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error at once; after a kill, the next rebuild removes the incomplete files, which the mark shows."""
    path = tmp_path / "s"
    make(path, 75, 150)
    wanted, target = derived(path), RemoteDirectory(s3.uri("four"))
    right = RemoteDirectory.put_file

    def failing(directory: RemoteDirectory, relative: str, file: str) -> None:
        if relative.startswith("index"):
            raise RemoteStoreError(directory.name, "is full")
        right(directory, relative, file)

    monkeypatch.setattr(RemoteDirectory, "put_file", failing)
    with pytest.raises(RemoteStoreError, match="is full"):
        rebuild_store(path, RebuildRequest(target=target.uri), SIZES)
    assert target.files(recursive=True) == []
    with monkeypatch.context() as killed:
        killed.setattr(upload, "remove_unfinished", lambda _: None)
        with pytest.raises(RemoteStoreError, match="is full"):
            rebuild_store(path, RebuildRequest(target=target.uri), SIZES)
    assert upload.MARK in dict(target.files())
    assert len(target.files(recursive=True)) > 2
    monkeypatch.undo()
    rebuild_store(path, RebuildRequest(target=target.uri), SIZES)
    assert_same(derived(get(target.uri, tmp_path / "got")), wanted)


@pytest.mark.skipif(LEVEL == "sample", reason="a rebuild from S3 is sampled: RF_FAULTS=1 runs it")
def test_command_reads_credentials_from_the_environment(s3: S3Server, tmp_path: Path) -> None:
    """An endpoint that does not answer is reported in one line."""
    path, target = tmp_path / "s", tmp_path / "target"
    make(path, 76, 100)
    put(s3.uri("five"), path)
    plain = s3.uri("five").replace(f"{IDENTITY}:{SECRET}@", "")
    keys = {"AWS_ACCESS_KEY_ID": IDENTITY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-c", COMMAND_LINE, "store", "rebuild", *arguments]
        return subprocess.run(whole, env=environment(**keys), capture_output=True, text=True, timeout=100, check=False)

    done = command(plain, "--target", str(target), "--workers", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert f"s3://{BUCKET}/five" in done.stdout
    assert_same(derived(target), derived(path))
    refused = command(s3.uri("five").replace(str(s3.port), "1"), "--target", str(tmp_path / "none"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: s3://")
    assert refused.stderr.count("\n") == 1
    assert SECRET not in refused.stderr
    assert not (tmp_path / "none").exists()

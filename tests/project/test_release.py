"""The release: the same bytes from each build, a wheel that works alone, a bill of materials, sums that match."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

import rocketflow
from tests.project.release import ROOT, build, install, write_sbom, write_sums
from tests.support.trials import LEVEL

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("a release is made from git")
    with pytest.MonkeyPatch.context() as patch:
        if LEVEL == "sample":  # the compiler takes a fifth of the time
            patch.setenv("CFLAGS", "-O0")
        return build("HEAD", tmp_path_factory.mktemp("dist"))


@pytest.mark.skipif(LEVEL == "sample", reason="builds twice: RF_FAULTS=1 runs it")
def test_two_builds_of_a_commit_are_the_same_bytes(
    packages: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    usual = os.umask(0o077)
    try:
        again = build("HEAD", tmp_path)
    finally:
        os.umask(usual)
    assert [path.suffix for path in packages] == [".whl", ".gz"]
    assert [path.name for path in again] == [path.name for path in packages]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in packages]


def test_wheel_works_without_the_repository(packages: list[Path], tmp_path: Path) -> None:
    """The libraries are those of this environment, on the path after the wheel; nothing is downloaded."""
    python = install(packages[0], tmp_path / "clean", "--no-deps", "--no-index", "--no-compile")
    write_sbom(python, tmp_path / "sbom.json")
    (libraries,) = (tmp_path / "clean" / "lib").glob("python*/site-packages")
    (libraries / "libraries.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def printed(*command: str) -> str:
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    assert printed(str(python.with_name("rocketflow")), "--version") == f"rocketflow {rocketflow.__version__}\n"
    names = ("rocketflow", "rocketflow_store", "pyspark_rocketflow")
    places = printed(str(python), "-c", f"import {', '.join(names)}; print({'.__file__, '.join(names)}.__file__)")
    assert places.count(str(tmp_path)) == len(names)
    assert "stream" in printed(str(python.with_name("rocketflow")), "submit", "--help")

    bill = json.loads((tmp_path / "sbom.json").read_text("utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    assert [(one["name"], one["version"]) for one in bill["components"]] == [("rocketflow", rocketflow.__version__)]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum")
def test_sums_are_those_that_sha256sum_checks(packages: list[Path]) -> None:
    folder = packages[0].parent
    write_sums(packages, folder / "SHA256SUMS")
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)

"""The container image is built from Debian's packages, and its broker, commands and Spark run in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.ports import free_port
from tests.support.trials import FULL, ROOT

TOOLS: Final = ("buildah", "debootstrap")
pytestmark = [
    pytest.mark.skipif(not FULL, reason="builds an image of 2 GB: RF_FULL=1 runs it"),
    pytest.mark.skipif(
        os.getuid() != 0 or not all(map(shutil.which, TOOLS)), reason=f"needs root and {' and '.join(TOOLS)}"
    ),
    pytest.mark.timeout(1800),
]

_BASE: Final = "localhost/debian:bookworm-slim"
_USE: Final = """
set -e
cd /data
rocketflow broker --set storePathRootDir=/data/store --set listenPort=PORT > broker.log 2>&1 &
broker=$!
for second in $(seq 60); do grep -q "listens at" broker.log && break; sleep 1; done
kill $broker
wait $broker
grep stopped broker.log
printf '{"body":"a"}\\n{"body":"b"}\\n' | rocketflow store append /data/store --topic T
rocketflow store rebuild /data/store
rocketflow store verify /data/store
SPARK_LOCAL_IP=127.0.0.1 python read.py
"""
_READ: Final = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
rows = spark.read.format("rocketflow").option("path", "/data/store").option("subscribe", "T").load()
print("bodies:", sorted(bytes(row.body).decode() for row in rows.collect()))
"""


class Buildah:
    """Buildah with its images and containers in a directory; containers run in a chroot, without an engine."""

    def __init__(self, home: Path) -> None:
        self._places = ("--root", f"{home}/root", "--runroot", f"{home}/run", "--storage-driver", "vfs")

    def __call__(self, *words: str) -> str:
        """Run a command and return what it printed; AssertionError with its output if it fails."""
        done = subprocess.run(["buildah", *self._places, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Buildah]:
    """Provide a Buildah; its images are removed at the end."""
    run = Buildah(tmp_path / "images")
    yield run
    run("rm", "--all")
    run("rmi", "--all", "--force")


def make_base(buildah: Buildah, home: Path) -> None:
    """Make an image of Debian's base packages; pip in it trusts the certificates that this machine trusts."""
    root = home / "debian"
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root], check=True, stdout=subprocess.DEVNULL)
    shutil.copyfile("/etc/ssl/certs/ca-certificates.crt", root / "etc" / "pip-ca.crt")
    (root / "etc" / "pip.conf").write_text("[global]\ncert = /etc/pip-ca.crt\n")
    archive = home / "debian.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    container = buildah("from", "scratch").strip()
    buildah("add", container, str(archive), "/")
    buildah("commit", container, _BASE)


def test_image_runs_broker_commands_and_spark(tmp_path: Path, buildah: Buildah) -> None:
    make_base(buildah, tmp_path)
    file = str(ROOT / "conf" / "container" / "Containerfile")
    buildah("bud", "--isolation", "chroot", "--build-arg", f"BASE={_BASE}", "-f", file, "-t", "rocketflow", str(ROOT))
    data = tmp_path / "data"
    data.mkdir()
    (data / "use.sh").write_text(_USE.replace("PORT", str(free_port((-2, 1)))))
    (data / "read.py").write_text(_READ)
    os.chown(data, 1000, 1000)
    container = buildah("from", "rocketflow").strip()
    shown = buildah("run", "--isolation", "chroot", "--volume", f"{data}:/data", container, "--", "sh", "/data/use.sh")
    assert "bodies: ['a', 'b']" in shown
    print(shown, file=sys.stderr)

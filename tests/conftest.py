"""Fixtures that several test folders share."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")


@pytest.fixture(scope="session")
def golden_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`golden_store(name)`: the root of an unpacked golden store, shared by the session and never to be changed.

    `golden_store(name, "rebuilt")` is what RocketMQ itself made of a crashed one.
    """
    unpacked: dict[tuple[str, str], Path] = {}

    def unpack(name: str, archive: str = "store") -> Path:
        if (name, archive) not in unpacked:
            target = tmp_path_factory.mktemp(f"golden-{name}-{archive}")
            with tarfile.open(GOLDEN / name / f"{archive}.tar.xz") as packed:
                packed.extractall(target, filter="data")
            inside = [entry for entry in target.iterdir() if entry.is_dir()]
            is_root = (target / "commitlog").is_dir() or len(inside) != 1
            unpacked[name, archive] = target if is_root else inside[0]
        return unpacked[name, archive]

    return unpack


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of a test run."""
    from rocketflow.spark.session import build_session

    session = build_session("rocketflow-tests", "local[2]", fast_start=True)
    yield session
    session.stop()

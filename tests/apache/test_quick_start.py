"""Unmodified Java clients send to and consume from RocketFlow's NameServer and broker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.apache.clients import all_ok, cluster, java_families
from tests.apache.judge import versions
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

SAMPLE: Final = ["sync", "batch", "push", "orderly", "retry", "lite"]
FAMILIES: Final = [
    *("sync", "async", "oneway", "batch", "selector", "delay", "push", "tags", "broadcasting", "orderly"),
    *("sql", "retry", "dlq", "lite", "query"),
]
FURTHER: Final = ["trace", "assign", "rebalance"]
FURTHER_OF: Final = {
    "4.9.7": ["request", *FURTHER],
    "5.3.3": ["timer", "recall", *FURTHER],  # its `request` ends once the question is stored, and never has an answer
}


@pytest.mark.parametrize("version", versions("5.3.3", of=("5.3.3", "4.9.7")))
def test_every_family_of_the_java_client_works(version: str, tmp_path: Path) -> None:
    check("QuickStart", version, SAMPLE if LEVEL == "sample" else FAMILIES, tmp_path)


@pytest.mark.skipif(LEVEL == "sample", reason="starts Java once more: RF_FAULTS=1 runs it")
@pytest.mark.parametrize("version", versions("5.3.3", of=("5.3.3", "4.9.7")))
def test_further_families_of_the_java_client_work(version: str, tmp_path: Path) -> None:
    check("FurtherFamilies", version, ["timer", "assign"] if LEVEL == "sample" else FURTHER_OF[version], tmp_path)


def check(program: str, version: str, families: list[str], home: Path) -> None:
    """Run families of a Java program; all have to end well, and both servers with 0."""
    with cluster(home, "recallMessageEnable=true") as (names, broker):
        found = java_families(program, version, names.address, families, home)
        assert found == all_ok(families), broker.log.read_text()[-3000:]
        assert broker.stop() == 0
        assert names.stop() == 0

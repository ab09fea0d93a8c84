"""Unmodified Go clients send to and consume from RocketFlow's NameServer and broker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.apache.clients import all_ok, cluster, go_families
from tests.apache.test_transactions import QUICK_CHECKS
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

SAMPLE: Final = ["sync", "async", "oneway", "batch", "selector", "delay", "push", "tags", "orderly", "commit"]
FAMILIES: Final = [*SAMPLE, "broadcasting", "sql", "retry", "dlq", "request", "check", "timer", "lite", "trace"]


def test_every_family_of_the_go_client_works(tmp_path: Path) -> None:
    families = SAMPLE if LEVEL == "sample" else FAMILIES
    with cluster(tmp_path, "traceTopicEnable=true", *QUICK_CHECKS) as (names, broker):
        found = go_families(names.address, families)
        assert found == all_ok(families), broker.log.read_text()[-3000:]
        assert broker.stop() == 0
        assert names.stop() == 0

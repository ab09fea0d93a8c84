"""Unmodified Go clients send to and consume from RocketFlow's NameServer and broker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.apache.clients import all_ok, cluster, record, run_families
from tests.support.go import GoNotAvailableError, built, is_built
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

SOURCE: Final = Path(__file__).parent / "go" / "quick_start"
SAMPLE: Final = ["sync", "async", "oneway", "batch", "selector", "delay", "push", "tags", "orderly"]
FAMILIES: Final = [*SAMPLE, "broadcasting", "sql", "retry", "dlq", "request"]


def test_every_family_of_the_go_client_works(tmp_path: Path) -> None:
    if LEVEL == "sample" and not is_built(SOURCE):
        pytest.skip("a first build takes minutes: RF_FULL=1 or `make test-interop` makes it")
    try:
        program = built(SOURCE)
    except GoNotAvailableError as error:
        pytest.skip(str(error))
    families = SAMPLE if LEVEL == "sample" else FAMILIES
    with cluster(tmp_path) as (names, broker):
        found = run_families([str(program), names.address, *families], families)
        record("Go", found)
        assert found == all_ok(families), broker.log.read_text()[-3000:]
        assert broker.stop() == 0
        assert names.stop() == 0

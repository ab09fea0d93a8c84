"""The same client program at Apache's servers and at RocketFlow's, through a recording proxy.

What is said on one side alone has to be on the list of explained differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.apache.clients import all_ok, cluster, go_families, java_families
from tests.apache.recorder import facts_of, recording
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.apache.test_go_client import FAMILIES as GO_FAMILIES
from tests.apache.test_quick_start import FAMILIES, FURTHER_OF
from tests.apache.test_transactions import QUICK_CHECKS
from tests.apache.transcript_differences import BY_CHANCE, BY_CHANCE_OF_GO, OF_APACHE, OF_ROCKETFLOW, SINCE_5
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(LEVEL == "sample", reason="runs all families at two clusters: RF_FULL=1 runs it"),
]

TRANSACTIONS = ["commit", "check"]
NOT_AT_APACHE = {("4.9.7", "assign")}
"""Families that fail at Apache's broker: 4.9's answers a time with the nearest message, which may be before it."""


@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
def test_what_both_brokers_say_differs_in_what_is_explained(version: str, tmp_path: Path) -> None:
    further = [one for one in FURTHER_OF[version] if (version, one) not in NOT_AT_APACHE]
    programs = {"QuickStart": FAMILIES, "FurtherFamilies": further, "Transactions": TRANSACTIONS}

    def java(address: str, place: str) -> dict[str, str]:
        home = tmp_path / place  # a broadcasting consumer keeps its offsets there
        found: dict[str, str] = {}
        for program, families in programs.items():
            found |= java_families(program, version, address, families, home, place)
        return found

    _compare(version, tmp_path, java, all_ok([*chain(*programs.values())]))


@pytest.mark.parametrize("version", ["5.3.3"])
def test_what_both_brokers_say_to_go_clients_differs_in_what_is_explained(version: str, tmp_path: Path) -> None:
    def go(address: str, place: str) -> dict[str, str]:
        found = go_families(address, TRANSACTIONS, f"Go, {place}")  # first, and alone: they end in time
        return found | go_families(address, others, f"Go, {place}")

    others = [one for one in GO_FAMILIES if one not in TRANSACTIONS]
    _compare(version, tmp_path, go, all_ok(GO_FAMILIES), BY_CHANCE_OF_GO)


def _compare(
    version: str,
    home: Path,
    families_at: Callable[[str, str], dict[str, str]],
    expected: dict[str, str],
    passing: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run families at both clusters, and compare the facts of what is said; `families_at` gets address and place.

    `passing` explains what either side may say alone.
    """
    patient = "waitTimeMillsInSendQueue=20000"  # families run side by side
    shared = ("recallMessageEnable=true", "traceTopicEnable=true", *QUICK_CHECKS)
    settings = "".join(
        f"{one}\n" for one in ("enablePropertyFilter=true", "autoCreateTopicEnable=true", patient, *shared)
    )
    with RealBroker(version, home / "apache", SIZES, home / "work", settings, last=True) as apache:
        wait_for_a_broker(f"127.0.0.1:{apache.names_port}")
        with recording(apache.names_port) as recorded:
            found = families_at(recorded.address, "Apache, recorded")
        assert found == expected
        of_apache = facts_of(recorded.exchanges)
    own = ("brokerClusterName=RF", f"brokerName={SIZES.broker_name}", *shared)
    with cluster(home / "own", *own) as (names, _):
        with recording(names.port) as recorded:
            found = families_at(recorded.address, "RocketFlow, recorded")
        assert found == expected
        of_rocketflow = facts_of(recorded.exchanges)
    assert len(of_apache) > 100
    passing = {**passing, **{f"{one}*": why for one, why in BY_CHANCE.items() if one in of_apache ^ of_rocketflow}}
    explained = {**OF_ROCKETFLOW, **passing, **({} if version.startswith("5") else SINCE_5)}
    left = [f"Apache: {one}" for one in unexplained(of_apache - of_rocketflow, {**OF_APACHE, **passing})]
    left += [f"RocketFlow: {one}" for one in unexplained(of_rocketflow - of_apache, explained)]
    assert not left, "\n".join(left)


def unexplained(facts: set[str], explained: dict[str, str]) -> list[str]:
    return sorted(one for one in facts if not any(fnmatchcase(one, pattern) for pattern in explained))

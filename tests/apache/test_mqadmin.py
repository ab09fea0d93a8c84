"""mqadmin's subcommands at RocketFlow's servers print what they print at Apache's; explained lines are excepted.

A sample runs a few commands at RocketFlow's servers and looks for texts that each must print.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.apache.clients import cluster, record
from tests.apache.mqadmin import Compared, Place, compared, is_subcommand, lines_of, mqadmin, scenario
from tests.apache.mqadmin_differences import differences
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

OWN: Final = ("brokerClusterName=RF", f"brokerName={SIZES.broker_name}")
CRC: Final = {"5.3.3": "enabledAppendPropCRC=true\n", "4.9.7": ""}
"""The setting by which Apache's records have a CRC too, so that sizes and places are equal."""

UNKNOWN: Final = "The sub command"
"""What mqadmin says of a command that its version does not have."""


@pytest.mark.skipif(LEVEL == "sample", reason="some eighty commands at two clusters: RF_FULL=1 runs it")
@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
def test_mqadmin_prints_at_both_brokers_the_same_or_what_is_explained(version: str, tmp_path: Path) -> None:
    home = tmp_path / "apache"
    with RealBroker(version, home / "store", SIZES, home / "work", CRC[version], last=True) as apache:
        of_apache = Place(f"127.0.0.1:{apache.names_port}", f"127.0.0.1:{apache.port}", home, version)
        wait_for_a_broker(of_apache.names)
        printed_by_apache = mqadmin(of_apache.names, home / "tools", scenario(of_apache), version)
    home = tmp_path / "own"
    with cluster(home, *OWN) as (names, broker):
        place = Place(names.address, broker.address, home, version)
        printed = mqadmin(place.names, home / "tools", scenario(place), version)
        broker.stop_in_order()
    found: list[Compared] = []
    for words, own, apache_s in zip(scenario(place), printed, printed_by_apache, strict=True):
        if is_subcommand(words) and not own.startswith(UNKNOWN):
            lines = lines_of(own, place), lines_of(apache_s, of_apache)
            found.append(compared(place.shown(words), *lines, differences(version)))
    record(f"mqadmin {version}", {one.command: one.result for one in found})
    assert [line for one in found for line in one.left] == []


def test_a_few_commands_print_what_they_are_asked_for(tmp_path: Path) -> None:
    with cluster(tmp_path, *OWN) as (names, broker):
        at, here = ["-n", names.address], ["-b", broker.address]
        wanted = [
            (["updateTopic", *at, "-c", "RF", "-t", "made", "-r", "2", "-w", "2"], "create topic to"),
            (["updateSubGroup", *at, *here, "-g", "readers"], "create subscription group to"),
            (["@produce", "senders", "made", "1", "5"], ""),
            (["producerConnection", *at, "-g", "senders", "-t", "made"], "127.0.0.1@senders"),
            (["queryMsgById", *at, "-t", "made", "-i", "MESSAGE_ID"], "7F00000100002A139A3E000000000004"),
            (["resetOffsetByTime", *at, "-g", "readers", "-t", "made", "-s", "0"], "broker-a"),
            (["topicStatus", *at, "-t", "made"], "broker-a"),
            (["deleteExpiredCommitLog", *at, *here], "success"),
            (["haStatus", *at, *here], "#SlaveNum"),
            (["brokerStatus", *at, *here], "putMessageTimesTotal            : 5"),
        ]
        found = mqadmin(names.address, tmp_path, [command for command, _ in wanted])
        wrong = [(command, text, said) for (command, text), said in zip(wanted, found) if text not in said]
        assert wrong == [], broker.log.read_text()[-2000:]
        assert [one for one in found if "Exception" in one] == []
        broker.stop_in_order()

"""mqadmin's subcommands at RocketFlow's servers print what they print at Apache's; explained lines are excepted.

A sample runs a few commands at RocketFlow's servers and looks for texts that each must print.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.errors import ClientError
from rocketflow.process.server_settings import ADMIN_KEYS
from tests.apache.clients import cluster, record
from tests.apache.mqadmin import (
    LISTED_KEY,
    Compared,
    Place,
    compared,
    is_subcommand,
    lines_of,
    mqadmin,
    of_users,
    scenario,
)
from tests.apache.mqadmin_differences import differences
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.servers import direct, until, wait_for_a_broker
from tests.support.signed import ADMIN
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

OWN: Final = ("brokerClusterName=RF", f"brokerName={SIZES.broker_name}", f"{ADMIN_KEYS}={LISTED_KEY}")
CRC: Final = {"5.3.3": "enabledAppendPropCRC=true\n", "4.9.7": ""}
"""The setting by which Apache's records have a CRC too, so that sizes and places are equal."""

_RULES: Final = "org.apache.rocketmq.auth"
_INNER: Final = {"accessKey": ADMIN.access_key, "secretKey": ADMIN.secret_key}
_FIRST: Final = {"username": ADMIN.access_key, "password": ADMIN.secret_key}
USERS: Final = (
    "authenticationEnabled=true",
    "authorizationEnabled=true",
    f"initAuthenticationUser={json.dumps(_FIRST)}",
)
"""The settings of a broker with users and policies, of whom the first is in `tools.yml`."""
APACHE_USERS: Final = (
    *USERS,
    f"authenticationMetadataProvider={_RULES}.authentication.provider.LocalAuthenticationMetadataProvider",
    f"authorizationMetadataProvider={_RULES}.authorization.provider.LocalAuthorizationMetadataProvider",
    f"innerClientAuthenticationCredentials={json.dumps(_INNER)}",
)

UNKNOWN: Final = "The sub command"
"""What mqadmin says of a command that its version does not have."""


@pytest.mark.skipif(LEVEL == "sample", reason="some eighty commands at two clusters: RF_FULL=1 runs it")
@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
def test_mqadmin_prints_at_both_brokers_the_same_or_what_is_explained(version: str, tmp_path: Path) -> None:
    home = tmp_path / "apache"
    with RealBroker(version, home / "store", SIZES, home / "work", CRC[version], last=True) as apache:
        of_apache = Place(f"127.0.0.1:{apache.names_port}", f"127.0.0.1:{apache.port}", home, version)
        wait_for_a_broker(of_apache.names)
        assert until(lambda: _has_figures(of_apache))
        printed_by_apache = mqadmin(of_apache.names, home / "tools", scenario(of_apache), version)
    home = tmp_path / "own"
    with cluster(home, *OWN) as (names, broker):
        place = Place(names.address, broker.address, home, version)
        printed = mqadmin(place.names, home / "tools", scenario(place), version)
        broker.stop_in_order()
    _compare(scenario(place), (place, printed), (of_apache, printed_by_apache), f"mqadmin {version}")


@pytest.mark.skipif(LEVEL == "sample", reason="some forty commands at two clusters with users: RF_FULL=1 runs it")
def test_mqadmin_prints_the_same_about_users_and_policies(tmp_path: Path) -> None:
    home, version = tmp_path / "apache", "5.3.3"
    conf = "".join(f"{one}\n" for one in APACHE_USERS)
    with RealBroker(version, home / "store", SIZES, home / "work", conf, last=True) as apache:
        of_apache = Place(f"127.0.0.1:{apache.names_port}", f"127.0.0.1:{apache.port}", home, version)
        wait_for_a_broker(of_apache.names)
        printed_by_apache = mqadmin(of_apache.names, _with_account(home / "tools"), of_users(of_apache), version)
    home = tmp_path / "own"
    home.mkdir()
    with cluster(home, *OWN, *USERS) as (names, broker):
        place = Place(names.address, broker.address, home, version)
        printed = mqadmin(place.names, _with_account(home / "tools"), of_users(place), version)
        broker.stop_in_order()
    _compare(of_users(place), (place, printed), (of_apache, printed_by_apache), f"mqadmin {version}")


def _has_figures(place: Place) -> bool:
    """Return whether a broker answers its figures: Apache's fails at it until it has measured once."""

    async def ask() -> bool:
        async with direct() as client:
            try:
                return bool(await client.runtime_info(place.broker))
            except ClientError:
                return False

    return run(ask())


def _with_account(home: Path) -> Path:
    (home / "conf").mkdir(parents=True)
    tools = f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n"
    (home / "conf" / "tools.yml").write_text(tools)
    return home


def _compare(
    commands: list[list[str]], own: tuple[Place, list[str]], apache: tuple[Place, list[str]], table: str
) -> None:
    found: list[Compared] = []
    for words, own_text, apache_text in zip(commands, own[1], apache[1], strict=True):
        if is_subcommand(words) and not own_text.startswith(UNKNOWN):
            lines = lines_of(own_text, own[0]), lines_of(apache_text, apache[0])
            found.append(compared(own[0].shown(words), *lines, differences(own[0].version)))
    record(table, {one.command: one.result for one in found})
    assert "\n".join(f"{one.command}: {line}" for one in found for line in one.left) == ""


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
            (["updateBrokerConfig", *at, *here, "-k", LISTED_KEY, "-v", "4"], "update broker config success"),
            (["topicRoute", *at, "-t", "made"], '"perm":4'),
            (["updateBrokerConfig", *at, *here, "-k", LISTED_KEY, "-v", "6"], "update broker config success"),
            (["updateBrokerConfig", *at, *here, "-k", "maxMessageSize", "-v", "1"], "read at the start only"),
            (["exportMetadata", *at, "-c", "RF", "-f", "export"], "topicConfigTable.made.writeQueueNums: 2"),
            (["deleteExpiredCommitLog", *at, *here], "success"),
            (["haStatus", *at, *here], "#SlaveNum"),
            (["brokerStatus", *at, *here], "putMessageTimesTotal            : 5"),
        ]
        found = mqadmin(names.address, tmp_path, [command for command, _ in wanted])
        wrong = [(command, text, said) for (command, text), said in zip(wanted, found) if text not in said]
        assert wrong == [], broker.log.read_text()[-2000:]
        assert [one for one in found if "Exception" in one] == [one for one in found if "at the start only" in one]
        broker.stop_in_order()

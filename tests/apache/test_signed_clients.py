"""Unmodified Java clients with RocketMQ's hook for signatures, at brokers with both kinds of accounts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.apache.clients import CLIENT_SECONDS, cluster, jars
from tests.apache.judge import versions
from tests.apache.mqadmin import mqadmin
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.servers import RunningServer
from tests.support.signed import ADMIN, PLAIN_RULES, READER, WRITER
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(LEVEL == "sample", reason="half a minute for each kind of account: RF_FULL=1 runs it"),
]

Account = tuple[str, str]

UNSIGNED: Final = ("", "")
STRANGER: Final = ("stranger", "no-such-secret")
WRITES: Final = (WRITER.access_key, WRITER.secret_key)
READS: Final = (READER.access_key, READER.secret_key)
IMPOSTOR: Final = (WRITER.access_key, "another-secret")

REFUSED: Final = "refused 16"

CALLS: Final[list[tuple[Account, str, str, str, str]]] = [
    (WRITES, "SEND", "orders", "", "ok"),
    (WRITES, "BATCH", "orders", "", "ok"),
    (WRITES, "VIEW", "both", "", "ok"),
    (WRITES, "SEND", "closed", "", REFUSED),
    (READS, "SEND", "orders", "", REFUSED),
    (READS, "BATCH", "orders", "", REFUSED),
    (IMPOSTOR, "SEND", "orders", "", REFUSED),
    (STRANGER, "SEND", "orders", "", REFUSED),
    (UNSIGNED, "SEND", "orders", "", REFUSED),
    (READS, "PULL", "orders", "readers", "ok"),
    (READS, "PULL", "orders", "others", REFUSED),
    (WRITES, "PULL", "orders", "readers", REFUSED),
    (UNSIGNED, "PULL", "orders", "readers", REFUSED),
    (READS, "PUSH", "orders", "readers", "ok"),
    (WRITES, "REQUEST", "orders", f"{READER.access_key}/{READER.secret_key}/readers", "ok"),
]
"""Calls of clients: who makes them, what they do, topic, group, and the result."""

ASKS: Final = "4.9.7"
"""The version whose client waits for replies: that of 5.3.3 returns as soon as its request is stored."""

TOPICS: Final = ("orders", "both", "closed")


@contextmanager
def accounts(home: Path) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Run NameServer and broker with accounts of RocketMQ 4."""
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(PLAIN_RULES)
    with cluster(home, "aclEnable=true", f"rocketmqHome={home}") as servers:
        yield servers


@contextmanager
def users(home: Path) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Run NameServer and broker with users and policies of RocketMQ 5; mqadmin makes them."""
    first = json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key})
    settings = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={first}")
    (home / "conf").mkdir()
    tools = f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n"
    (home / "conf" / "tools.yml").write_text(tools)
    with cluster(home, *settings) as (names, broker):
        at = ["-n", names.address, "-b", broker.address]
        made = [["createUser", *at, "-u", one.access_key, "-p", one.secret_key] for one in (READER, WRITER)]
        for name, resources, action in (
            (READER.access_key, "Topic:orders,Group:readers", "Sub"),
            (WRITER.access_key, "Topic:orders", "Pub"),
            (WRITER.access_key, "Topic:bo*", "Pub,Sub"),
        ):
            made.append(["createAcl", *at, "-s", f"User:{name}", "-r", resources, "-a", action, "-d", "Allow"])
        for command, text in zip(made, mqadmin(names.address, home, made)):
            assert "success" in text, (command, text)
        yield names, broker


@pytest.mark.parametrize("version", versions("5.3.3", of=("5.3.3", "4.9.7")))
@pytest.mark.parametrize("kind", ["accounts", "users"])
def test_java_clients_do_what_their_accounts_allow(kind: str, version: str, tmp_path: Path) -> None:
    lib = jars(version)
    classes = compiled("SignedClient", version, lib)
    calls = [one for one in CALLS if one[1] != "REQUEST" or version == ASKS]
    with {"accounts": accounts, "users": users}[kind](tmp_path) as (names, broker):
        at = ["-n", names.address, "-b", broker.address]
        (tmp_path / "conf" / "tools.yml").write_text(f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n")
        made = [["updateTopic", *at, "-t", one, "-r", "1", "-w", "1"] for one in TOPICS]
        for command, text in zip(made, mqadmin(names.address, tmp_path, made)):
            assert "create topic to" in text, (command, text)
        done = subprocess.run(
            [
                *(java_and_javac()[0], *FLAGS, f"-Duser.home={tmp_path}", "-cp", f"{lib}/*:{classes}"),
                *("SignedClient", names.address, "broker-a"),
            ],
            input="".join("\t".join((*by, action, topic, group)) + "\n" for by, action, topic, group, _ in calls),
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        found = [one for one in done.stdout.splitlines() if one.startswith(("ok", "refused ", "failed "))]
        assert found == [expected for *_, expected in calls], (done.stderr[-3000:], broker.log.read_text()[-2000:])
        broker.stop_in_order()
        log = broker.log.read_text()
        assert not [one for one in (ADMIN, READER, WRITER) if one.secret_key in log]


def test_mqadmin_manages_users_and_their_policies(tmp_path: Path) -> None:
    with users(tmp_path) as (names, broker):
        at = ["-n", names.address, "-b", broker.address]
        bob = ["-u", "bob"]
        subject = ["-s", "User:bob"]
        wanted = [
            (["createUser", *at, *bob, "-p", "secret-of-bob", "-t", "Normal"], "create user to"),
            (["createUser", *at, *bob, "-p", "secret-of-bob"], "The user is existed"),
            (["listUser", *at, "-f", "bo"], "bob"),
            (["getUser", *at, *bob], "Normal"),
            (["updateUser", *at, *bob, "-s", "disable"], "update user to"),
            (["getUser", *at, *bob], "disable"),
            (
                [
                    "createAcl",
                    *at,
                    *subject,
                    "-r",
                    "Topic:t*,Group:g",
                    "-a",
                    "Pub,Sub",
                    "-d",
                    "Allow",
                    "-i",
                    "10.0.0.0/8",
                ],
                "create acl to",
            ),
            (["listAcl", *at, "-s", "bob"], "Topic:t*"),
            (["getAcl", *at, *subject], "10.0.0.0/8"),
            (["updateAcl", *at, *subject, "-r", "Group:g", "-a", "Sub", "-d", "Deny"], "update acl to"),
            (["getAcl", *at, *subject], "Deny"),
            (["createAcl", *at, *subject, "-r", "Topic:t", "-a", "Fly", "-d", "Allow"], "Exception"),
            (["deleteAcl", *at, *subject, "-r", "Group:g"], "delete acl to"),
            (["listAcl", *at, "-s", "bob"], "Topic:t*"),
            (["deleteAcl", *at, *subject], "delete acl to"),
            (["deleteUser", *at, *bob], "delete user to"),
            (["listUser", *at], ADMIN.access_key),
        ]
        found = mqadmin(names.address, tmp_path, [command for command, _ in wanted])
        wrong = [(command, text, printed) for (command, text), printed in zip(wanted, found) if text not in printed]
        assert wrong == []
        assert "bob" not in found[-1]
        broker.stop_in_order()

"""Brokers with access rules, and requests to them from this host's loopback or its other address."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.signature import Credentials
from tests.support.golden_remoting import header_samples
from tests.support.servers import RunningServer, running_broker, store_of
from tests.support.signed import ADMIN, PLAIN_RULES

OPEN = ("bindAddress=0.0.0.0", "rocketflow.allowInsecure=true")
"""Settings of a server that this host's other address reaches."""

QUIET = ("flushConsumerOffsetInterval=600000000",)
"""Settings of a broker that writes no file by itself."""


def other_address() -> str:
    """Return an address of this host outside of the loopback net; skip the test if there is none."""
    table = Path("/proc/net/fib_trie").read_text()
    for found in re.findall(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL", table):
        if not found.startswith("127."):
            return str(found)
    pytest.skip("this host has no address besides loopback")


@contextmanager
def plain_broker(home: Path, *settings: str, rules: str = PLAIN_RULES) -> Iterator[RunningServer]:
    """Run a broker with accounts of RocketMQ 4, whose file is `home/conf/plain_acl.yml`."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "plain_acl.yml").write_text(rules)
    with running_broker(home, "aclEnable=true", f"rocketmqHome={home}", *settings) as broker:
        yield broker


@contextmanager
def users_broker(home: Path, *settings: str) -> Iterator[RunningServer]:
    """Run a broker with users and policies of RocketMQ 5; its super user is ADMIN."""
    first = json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key})
    options = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={first}")
    with running_broker(home, *options, *settings) as broker:
        yield broker


PROGRESS = frozenset({"checkpoint", "rocketflow/confirm", "rocketflow/ends"})
"""Files in which a store notes how much of the others it has synced."""


def fingerprint(broker: RunningServer) -> dict[str, str]:
    """Return the digest of each file of a broker's store but those of its own progress, by path."""
    root = store_of(broker)
    files = sorted(one for one in root.rglob("*") if one.is_file())
    found = {str(one.relative_to(root)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}
    return {name: digest for name, digest in found.items() if name not in PROGRESS}


def all_codes() -> list[int]:
    """Return the request codes of the sweep: RocketMQ's, RocketFlow's, and those between and around them."""
    return [*range(5_001), *range(30_001, 30_011), *range(200_050, 200_161)]


def usual_fields() -> dict[int, dict[str, str]]:
    """Return fields for each request code whose header class is known, all of them with a value."""
    found = {
        one.code: {name: _text(value) for name, value in one.values.items()}
        for one in header_samples("5.3.3")
        if one.code is not None and one.name == "all"
    }
    found[RequestCode.SEND_MESSAGE_V2] = dict.fromkeys("abcdefghijklm", "1")
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


STRANGER = Credentials("stranger", "no-such-secret")

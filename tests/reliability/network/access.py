"""Every request code with usual fields, this host's other address, and what a store's files are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.signature import Credentials
from tests.support.golden_remoting import header_samples
from tests.support.servers import RunningServer, store_of

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

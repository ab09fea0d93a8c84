"""Patterns of addresses mean what they mean to RocketMQ 4.9.7, except those that it reads by mistake."""

from __future__ import annotations

import ipaddress
import subprocess
from pathlib import Path
from typing import Final

import pytest

from rocketflow.access.addresses import parse_addresses
from tests.apache.clients import jars
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.skipif(LEVEL == "sample", reason="starts Java: RF_FULL=1 runs it"),
]

VERSION: Final = "4.9.7"
ADDRESSES: Final = (
    *("10.1.2.3", "10.1.2.4", "10.1.2.20", "10.1.3.3", "10.2.2.3", "110.1.2.3", "0.0.0.0", "255.255.255.255"),
    *("::1", "2001:db8::1", "2001:db8::a", "5::7:6:1:9", "5::7:6:200:ffff", "5::1", "1:2:3:4:5:6:7:8"),
)
PATTERNS: Final = (
    *("", "*", "*.*.*.*", "10.1.2.3", "10.1.2.4", "10.1.2.3,10.1.3.3", "10.1.2.{3,4}", "10.1.2.{20}", "10.1.2.*"),
    *("10.1.*.*", "10.*.*.*", "10.1.2.1-4", "10.1.2.3-3", "10.1.2-3.*", "10.1.2.0-255", "::1", "2001:db8::{1,a}"),
    *("1:2:3:4:5:6:7:*", "1:2:3:4:5:6:7:7-9", "1:2:3:4:5:6:1-9:*", "2001:db8::1,::1", "10.1.2.3,::1"),
    *("10.1.2", "10.1.2.256", "10.1.2.5-1", "10.1.2.{x}", "10.1.2.3}", "a.b.c.d", "10.1.2.3,", "1:2:3"),
)
DIFFERENT: Final = {
    "10.1.2.3,": "an empty address of a list is refused, RocketMQ ignores it",
}
"""Patterns that RocketMQ reads in another way."""


def meaning(pattern: str, address: str) -> str:
    """Return what a pattern says about an address."""
    try:
        return str(any(one.matches(ipaddress.ip_address(address)) for one in parse_addresses(pattern))).lower()
    except ValueError:
        return "refused"


def test_patterns_mean_what_they_mean_to_rocketmq(tmp_path: Path) -> None:
    lib = jars(VERSION)
    pairs = [(pattern, address) for pattern in PATTERNS for address in ADDRESSES]
    done = subprocess.run(
        [
            *(java_and_javac()[0], *FLAGS, f"-Duser.home={tmp_path}"),
            *("-cp", f"{lib}/*:{compiled('AddressPatterns', VERSION, lib)}", "AddressPatterns"),
        ],
        input="".join(f"{pattern}\t{address}\n" for pattern, address in pairs),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    answers = done.stdout.split()
    assert len(answers) == len(pairs), done.stderr[-2000:]
    differing = {pattern for (pattern, address), one in zip(pairs, answers) if one != meaning(pattern, address)}
    shown = [(*pair, one, meaning(*pair)) for pair, one in zip(pairs, answers) if one != meaning(*pair)]
    assert differing == DIFFERENT.keys(), shown

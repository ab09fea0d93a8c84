"""Addresses of servers in options."""

from __future__ import annotations

import pytest

from rocketflow.remoting.addresses import is_address


@pytest.mark.parametrize("text", ["127.0.0.1:9876", "names-1.local:1", "[::1]:9876", "::1:9876", "a_b:65535"])
def test_host_and_port_are_an_address(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize(
    "text", ["", "nonsense", ":9876", "host:", "host:0", "host:65536", "host:-1", "http://host:80", "a b:1", "host:1 "]
)
def test_other_texts_are_none(text: str) -> None:
    assert not is_address(text)

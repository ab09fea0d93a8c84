"""Patterns of addresses against a plain model of what they mean."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.access.addresses import Host, host_of, parse_addresses


def matches(pattern: str, address: str) -> bool:
    """Return whether a pattern has an address."""
    return any(one.matches(ipaddress.ip_address(address)) for one in parse_addresses(pattern))


Part = tuple[str, Callable[[int], bool]]


def parts(highest: int, text: Callable[[int], str]) -> st.SearchStrategy[Part]:
    """Return texts of one part of an address, each with what it means."""
    numbers = st.integers(0, highest)

    def between(ends: tuple[int, int]) -> Part:
        low, high = min(ends), max(ends)
        return f"{text(low)}-{text(high)}", lambda value: low <= value <= high

    def exactly(number: int) -> Part:
        return text(number), lambda value: value == number

    every: st.SearchStrategy[Part] = st.just(("*", lambda value: True))
    return st.one_of(every, numbers.map(exactly), st.tuples(numbers, numbers).map(between))


@given(st.lists(parts(255, str), min_size=4, max_size=4), st.lists(st.integers(0, 255), min_size=4, max_size=4))
def test_ipv4_patterns_have_what_each_part_says(pattern: list[Part], values: list[int]) -> None:
    expected = all(allows(value) for (_, allows), value in zip(pattern, values))
    assert matches(".".join(text for text, _ in pattern), ".".join(map(str, values))) is expected


@given(
    st.lists(parts(0xFFFF, lambda value: f"{value:x}"), min_size=8, max_size=8),
    st.lists(st.integers(0, 0xFFFF), min_size=8, max_size=8),
)
def test_ipv6_patterns_have_what_each_part_says(pattern: list[Part], values: list[int]) -> None:
    expected = all(allows(value) for (_, allows), value in zip(pattern, values))
    assert matches(":".join(text for text, _ in pattern), ":".join(f"{one:x}" for one in values)) is expected


@given(st.ip_addresses())
def test_an_address_and_lists_with_it_have_it_and_no_other(host: Host) -> None:
    other = host + 1 if int(host) < 2**32 - 1 else host - 1
    for pattern in (str(host), f"10.0.0.1,{host}", f" {host} "):
        assert matches(pattern, str(host))
        assert not matches(pattern, str(other)) or str(other) == "10.0.0.1"
    assert matches("*", str(host))
    assert not matches("", str(host))


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("10.1.2.{3,4}", ["10.1.2.3", "10.1.2.4"], ["10.1.2.34", "10.1.2.5", "::1"]),
        ("10.1.2.1-20", ["10.1.2.1", "10.1.2.20"], ["10.1.2.0", "10.1.2.21", "110.1.2.2"]),
        ("10.1.1-2.*", ["10.1.2.255"], ["10.1.3.0"]),
        ("*.*.*.*", ["1.2.3.4", "::1"], []),
        ("5::7:6:1-200:*", ["5::7:6:1:9", "5:0:0:0:7:6:200:ffff"], ["5::7:6:201:0", "5::7:6:0:9", "1.2.3.4"]),
        ("5::*", ["5::1", "5::ffff"], ["5::1:1", "6::1"]),
        ("2001:db8::{1,a}", ["2001:db8::1", "2001:DB8::A"], ["2001:db8::2"]),
        ("::1", ["0:0:0:0:0:0:0:1"], ["::2"]),
    ],
)
def test_known_patterns(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert all(matches(pattern, one) for one in inside)
    assert not any(matches(pattern, one) for one in outside)


WRONG = [
    *("10.1.2", "10.1.2.256", "10.1.2.-1", "10.1.2.5-1", "10.1.2.1-2-3", "10.1.2.{3,x}", "10.1.2.3}", "a.b.c.*", "é"),
    *("1:2:3:*", "5:::*", "::g-h", "1:2:3:4:5:6:7:8:*", "10.1.2.²", "10.1.2.3,,", "-", "{}", "*.*", "fe80::1%*"),
]


@pytest.mark.parametrize("pattern", WRONG)
def test_other_texts_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no address or pattern"):
        parse_addresses(pattern)


@given(st.text(alphabet="0123456789abf.:*-{}, ", max_size=40) | st.text(max_size=20))
def test_any_text_gives_patterns_or_a_value_error(text: str) -> None:
    try:
        found = parse_addresses(text)
    except ValueError:
        return
    for host in ("10.1.2.3", "::1"):
        assert all(one.matches(ipaddress.ip_address(host)) in (True, False) for one in found)


def test_the_host_of_a_connection_is_its_address_without_port() -> None:
    assert host_of("127.0.0.1:80") == ipaddress.ip_address("127.0.0.1")
    assert host_of("[::1]:80") == ipaddress.ip_address("::1")
    assert host_of("[::ffff:10.1.2.3]:80") == ipaddress.ip_address("10.1.2.3")
    assert host_of("") is None

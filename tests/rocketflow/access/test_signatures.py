"""Requests with marks: each counts once, at its time; what is kept of them is bounded."""

from __future__ import annotations

import random

import pytest

from rocketflow.access.signatures import MOST_CLIENTS, NUMBERS, VALID_SECONDS, SeenRequests
from rocketflow.remoting.command import Command
from rocketflow.remoting.signature import MARK, Credentials, RequestMark, sign
from tests.support.trials import SEED, some

ACCOUNT = Credentials("rocketmq2", "12345678")
NOW = 1_700_000_000.0


class Clock:
    """A clock that the test sets."""

    now = NOW

    def __call__(self) -> float:
        """Return the time, in seconds."""
        return self.now


def client_name(number: int) -> str:
    """Return the name of a client."""
    return f"{number:022d}"


def taken(seen: SeenRequests, number: int, *, client: int = 1, at: float = NOW) -> str | None:
    """Return why a request with a mark is refused."""
    command = Command(10, {"topic": "t"})
    sign(command, ACCOUNT, RequestMark(int(at * 1000), client_name(client), number, ""))
    return seen.check(command, ACCOUNT.secret_key, "bad signature")


def test_a_request_with_a_mark_counts_once() -> None:
    seen = SeenRequests(Clock())
    assert taken(seen, 1) is None
    assert "has been sent before" in (taken(seen, 1) or "")
    assert taken(seen, 1, client=2) is None
    assert taken(seen, 2) is None


def test_a_request_without_a_mark_counts_each_time() -> None:
    seen = SeenRequests(Clock())
    command = Command(10, {"topic": "t"})
    sign(command, ACCOUNT)
    assert {seen.check(command, ACCOUNT.secret_key, "bad signature") for _ in range(3)} == {None}
    assert seen.check(command, "another", "bad signature") == "bad signature"


def test_a_mark_of_a_bad_signature_is_not_seen() -> None:
    seen = SeenRequests(Clock())
    command = Command(10, {"topic": "t"})
    sign(command, ACCOUNT, RequestMark(int(NOW * 1000), client_name(1), 1, ""))
    assert seen.check(command, "another", "bad signature") == "bad signature"
    assert seen.check(command, ACCOUNT.secret_key, "bad signature") is None


def test_a_mark_that_was_moved_to_another_field_is_refused() -> None:
    command = Command(10, {"topic": "t"})
    sign(command, ACCOUNT, RequestMark(int(NOW * 1000), client_name(1), 1, ""))
    command.fields["B"] = command.fields.pop(MARK)
    assert "belongs to another request" in (SeenRequests(Clock()).check(command, ACCOUNT.secret_key, "") or "")


def test_numbers_in_any_order_count_once_each_as_long_as_they_are_near() -> None:
    source, seen, model = random.Random(SEED), SeenRequests(Clock()), set[int]()
    highest = 0
    for _ in range(some(6_000)):
        number = max(1, highest + source.randint(-2 * NUMBERS, 3) if source.random() < 0.7 else highest + 1)
        expected = number not in model and number > highest - NUMBERS
        assert (taken(seen, number) is None) is expected, (SEED, number, highest)
        model.add(number)
        highest = max(highest, number)


@pytest.mark.parametrize(("at", "why"), [(-1, "behind"), (1, "ahead of")])
def test_a_time_that_differs_too_much_is_refused_with_the_difference(at: int, why: str) -> None:
    seen = SeenRequests(Clock())
    assert taken(seen, 1, at=NOW + at * VALID_SECONDS) is None
    refused = taken(seen, 2, at=NOW + at * (VALID_SECONDS + 60))
    assert f"360 s {why} the server's clock" in (refused or "")


def test_clients_are_forgotten_when_their_marks_are_too_old_to_count() -> None:
    clock = Clock()
    seen = SeenRequests(clock)
    for client in range(MOST_CLIENTS):
        assert taken(seen, 1, client=client) is None
    clock.now += VALID_SECONDS + 1
    assert taken(seen, 1, client=MOST_CLIENTS, at=clock.now) is None
    assert "behind" in (taken(seen, 1, client=3) or "")
    assert len(seen) == 1


def test_requests_of_forgotten_clients_do_not_count_again() -> None:
    seen = SeenRequests(Clock())
    for client in range(MOST_CLIENTS + 1):
        assert taken(seen, 1, client=client, at=NOW + client / 1000) is None
    assert len(seen) <= MOST_CLIENTS
    forgotten = taken(seen, 1, client=0, at=NOW)
    assert "older than those" in (forgotten or "")
    assert "older than those" in (taken(seen, 1, client=MOST_CLIENTS + 5, at=NOW) or "")
    assert taken(seen, 1, client=MOST_CLIENTS + 5, at=NOW + 60) is None

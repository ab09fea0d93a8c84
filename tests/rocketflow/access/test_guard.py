"""The check before a processor: what it costs without accounts, who passes, and what it logs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rocketflow.access.addresses import host_of
from rocketflow.access.guard import Guard, refusal
from rocketflow.access.permissions import Audience
from rocketflow.access.plain_rules import PlainRules
from rocketflow.access.served import Served
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.signature import JOB_ACCESS_KEY, Credentials, sign
from tests.support.processed_codes import ROWS
from tests.support.signed import ADMIN, signed

CODE = RequestCode
NEAR, FAR = "127.0.0.1:9", "10.1.2.3:9"
JOB = Credentials(JOB_ACCESS_KEY, "secret-of-jobs")


@dataclass
class Connection:
    """The part of a connection that the check reads."""

    address: str


def process(request: Request) -> None:
    """Take a request."""


def why(code: int, address: str, rules: PlainRules | None = None, by: Credentials | None = None) -> str | None:
    """Return why a request is refused by a server with the secret of jobs."""
    return refusal(ROWS[code], signed(code, by=by), host_of(address), rules, JOB.secret_key)


def test_without_accounts_requests_of_clients_reach_their_processors_directly() -> None:
    requests = [Served(code, row, process) for code, row in ROWS.items()]
    guarded = Guard().guarded(requests)
    assert guarded.keys() == ROWS.keys()
    for code, row in ROWS.items():
        assert (guarded[code] is process) is (row.audience in (Audience.CLIENT, Audience.BROKER)), CODE(code)
    assert not [one for one in Guard(PlainRules()).guarded(requests).values() if one is process]


def test_without_accounts_operators_and_jobs_have_to_be_on_the_host() -> None:
    for code, row in ROWS.items():
        assert why(code, NEAR) is None
        assert why(code, "[::1]:9") is None
        assert (why(code, FAR) is None) is (row.audience in (Audience.CLIENT, Audience.BROKER)), CODE(code)
        assert (why(code, "") is None) is (row.audience in (Audience.CLIENT, Audience.BROKER)), CODE(code)


@pytest.mark.parametrize("rules", [None, PlainRules()])
def test_the_signature_of_jobs_counts_for_requests_of_jobs_only(rules: PlainRules | None) -> None:
    for code, row in ROWS.items():
        is_of_job = row.audience is Audience.JOB or code == CODE.UPDATE_CONSUMER_OFFSET
        if is_of_job:
            assert why(code, FAR, rules, JOB) is None
            assert why(code, FAR, rules, Credentials(JOB_ACCESS_KEY, "x")) is not None
        elif rules is not None:
            assert why(code, FAR, rules, JOB) is not None
    unset = signed(CODE.ROCKETFLOW_REQUEUE, by=Credentials(JOB_ACCESS_KEY, ""))
    assert refusal(ROWS[CODE.ROCKETFLOW_REQUEUE], unset, host_of(FAR), rules, "") is not None


def test_refusals_are_counted_and_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    guarded = Guard(PlainRules()).guarded([Served(CODE.SEND_MESSAGE, ROWS[CODE.SEND_MESSAGE], process)])
    for number in range(100):
        command = Command(CODE.SEND_MESSAGE, {"topic": "t"})
        sign(command, Credentials(f"line\n{number}", ADMIN.secret_key))
        with pytest.raises(RefusedError) as caught:
            guarded[CODE.SEND_MESSAGE](Request(Connection(FAR), command))  # type: ignore[arg-type]
        assert caught.value.code == ResponseCode.NO_PERMISSION
    assert len(caplog.records) <= 2
    assert "1 from 10.1.2.3" in caplog.text
    assert "line\n" not in caplog.records[0].getMessage()
    assert ADMIN.secret_key not in caplog.text

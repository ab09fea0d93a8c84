"""The page of the requests that servers process, from their declarations."""

from __future__ import annotations

from typing import Final

from rocketflow.access.permissions import Audience, Row, shown_actions
from rocketflow.access.served import declared_in
from rocketflow.remoting.codes import UNSUPPORTED, RequestCode, code_name

NAME: Final = "requests.md"

_HEAD: Final = """# Requests

Written by `make reference` from the declaration of each request at its processor. With accounts a request needs all
that is listed; a field that is missing names nothing. A stored message that leaves with an answer or is copied needs
the last column too, by the topic that it is for. Without accounts requests of clients and brokers are not checked, and
those of operators and jobs have to come from the server's host.
"""
_SERVERS: Final = (("Broker", "rocketflow.broker"), ("NameServer", "rocketflow.namesrv"))
_OF: Final = {Audience.CLIENT: "clients", Audience.ADMIN: "operators", Audience.BROKER: "brokers", Audience.JOB: "jobs"}


def request_page() -> str:
    """Return the page."""
    lines = [_HEAD]
    for title, package in _SERVERS:
        lines += [f"## {title}", "", "| code | request | sent by | needs | stored messages |", "|---|---|---|---|---|"]
        lines += [_line(code, row) for code, row in sorted(declared_in(package).items())]
        lines.append("")
    lines += ["## Not processed", "", "The answer is code 3 with the reason.", "", "| code | reason |", "|---|---|"]
    lines += [f"| {code_name(code)} | {why} |" for code, why in sorted(UNSUPPORTED.items())]
    return "\n".join(lines) + "\n"


def _line(code: int, row: Row) -> str:
    needs, record = "; ".join(one.text for one in row.needs), shown_actions(row.record)
    return f"| {code} | {RequestCode(code).name} | {_OF[row.audience]} | {needs} | {record} |"

"""Arguments that several subcommands read: brokers, times, true and false."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from rocketflow.errors import UsageError
from rocketflow.process.times import TIME_FORM, SecondsError, parse_time
from rocketflow.remoting.addresses import is_address

if TYPE_CHECKING:
    from rocketflow.client.admin.admin_client import AdminClient

TrueOrFalse = Literal["true", "false"]

_MQADMIN_TIME: Final = "%Y-%m-%d#%H:%M:%S:%f"


async def chosen_brokers(admin: AdminClient, broker: str | None, cluster: str | None) -> list[str]:
    """Return the address given by -b, or those of the masters of the cluster given by -c. Raises UsageError."""
    if (broker is None) == (cluster is None):
        raise UsageError("give either -b HOST:PORT, a broker, or -c NAME, a cluster")
    if broker is None:
        return await admin.brokers_of(cluster or "")
    if not is_address(broker):
        raise UsageError(f"-b {broker}: the address of a broker is expected, host:port; -c takes a cluster's name")
    return [broker]


async def broker_names(admin: AdminClient) -> dict[str, str]:
    """Return the names of all brokers by their addresses."""
    known = (await admin.cluster_info()).broker_addr_table
    return {address: name for name, one in known.items() for address in one.broker_addrs.values()}


def time_of(text: str) -> int:
    """Return a time in ms since 1970: `now`, ms, ISO 8601, or mqadmin's 2026-01-31#12:30:00:000 in local time.

    Raises UsageError.
    """
    if text == "now":
        return int(time.time() * 1000)
    try:
        if "#" in text:
            moment = datetime.strptime(text, _MQADMIN_TIME)  # noqa: DTZ007 mqadmin's times are local
            return int(moment.timestamp() * 1000)
        return parse_time(text)
    except SecondsError as error:
        raise UsageError(str(error)) from None
    except ValueError:
        raise UsageError(f"{text!r} is no time: now, {TIME_FORM}, or 2026-01-31#12:30:00:000") from None


def parse_attributes(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the attributes that `+name=value,-name` sets, by name, and those that it removes. Raises UsageError."""
    set_to: dict[str, str] = {}
    removed: list[str] = []
    for part in filter(None, text.split(",")):
        name, mark, value = part.partition("=")
        if name.startswith("+") and mark:
            set_to[name[1:]] = value
        elif name.startswith("-") and not mark:
            removed.append(name[1:])
        else:
            raise UsageError(f"attributes {text}: write +name=value to set an attribute, -name to remove one")
    return set_to, removed

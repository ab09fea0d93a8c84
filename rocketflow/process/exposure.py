"""Addresses that other hosts reach are refused as long as nothing protects a server."""

from __future__ import annotations

import ipaddress
from typing import Final

from rocketflow.errors import UsageError

ALLOW_INSECURE: Final = "rocketflow.allowInsecure"


def check_exposure(key: str, address: str, *, allowed: bool, by_tls: bool = True) -> None:
    """Refuse an address that other hosts reach, unless that is `allowed`. Raises UsageError.

    `by_tls` is false for a port that TLS cannot protect.
    """
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise UsageError(f"{key}={address} is no IP address") from None
    if not local and not allowed:
        what = "neither TLS nor access control protects" if by_tls else "nothing protects"
        remedy = ", tls.server.mode=enforcing or aclEnable=true" if by_tls else ""
        raise UsageError(
            f"{key}={address} can be reached from other hosts, and {what} the server: set {key}=127.0.0.1{remedy}, or "
            f"{ALLOW_INSECURE}=true if the network is trusted"
        )

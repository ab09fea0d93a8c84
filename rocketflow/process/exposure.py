"""Addresses that other hosts reach are refused as long as nothing protects a server."""

from __future__ import annotations

import ipaddress
from typing import Final

from rocketflow.errors import UsageError

ALLOW_INSECURE: Final = "rocketflow.allowInsecure"


def check_exposure(key: str, address: str, *, allowed: bool) -> None:
    """Refuse an address that other hosts reach, unless that is `allowed`. Raises UsageError."""
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise UsageError(f"{key}={address} is no IP address") from None
    if not local and not allowed:
        raise UsageError(
            f"{key}={address} can be reached from other hosts, and neither TLS nor access control protects the "
            f"server: set {key}=127.0.0.1 or tls.server.mode=enforcing, or {ALLOW_INSECURE}=true if the network is "
            "trusted"
        )

"""Policies of RocketMQ 5: which entry decides about an action on a resource.

RocketMQ's source: auth/authorization/chain/AclAuthorizationHandler.java, auth/authorization/model/**,
common/utils/IPAddressUtils.java. Of several entries the one with the longest prefix decides, as RocketMQ documents; its
code prefers the shortest.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rocketflow.access.addresses import Host
from rocketflow.access.permissions import Action, Kind, Need
from rocketflow.errors import RocketFlowError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"
POLICY_TYPES: Final = (CUSTOM, DEFAULT)

_ACTIONS: Final = {one.value.lower(): one for one in Action}
_KINDS: Final = {one.value.lower(): one for one in Kind}
_DECISIONS: Final = {"allow": True, "deny": False}


class PolicyError(RocketFlowError, ValueError):
    """A policy cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Resources by kind (None: any) and name, or the beginning of names."""

    kind: Kind | None
    name: str
    is_prefix: bool

    def __str__(self) -> str:
        """Return the resource as RocketMQ writes it."""
        return "*" if self.kind is None else f"{self.kind}:{self.name}{'*' if self.is_prefix else ''}"

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether a resource is one of these."""
        if self.kind is None:
            return True
        return kind is self.kind and (name.startswith(self.name) if self.is_prefix else name == self.name)

    @property
    def precedence(self) -> tuple[bool, bool, int]:
        """A key that is greater for the more specific resource."""
        return self.kind is not None, not self.is_prefix, len(self.name)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is allowed or denied on resources, for requests from `sources` (none: from everywhere)."""

    resource: Resource
    actions: frozenset[Action]
    sources: tuple[Network, ...]
    is_allowed: bool

    def decides(self, need: Need, host: Host | None) -> bool:
        """Return whether the entry says something about a need."""
        if not self.resource.has(need.kind, need.name):
            return False
        if Action.ALL not in self.actions and not self.actions & need.actions:
            return False
        return not self.sources or (host is not None and any(host in one for one in self.sources))


@dataclass(frozen=True, slots=True)
class Policies:
    """The entries of a user; default ones count where no custom one decides."""

    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()

    def refusal(self, need: Need, host: Host | None) -> str | None:
        """Return why a need is refused, None if it is allowed."""
        found = _deciding(self.custom, need, host) or _deciding(self.default, need, host)
        if found is None:
            return "no matched policies."
        return None if found.is_allowed else "the decision is deny."


def parse_resource(text: str | None) -> Resource:
    """Return the resources that a text names: `Topic:name`, `Group:prefix*`, `Cluster:*` or `*`. Raises PolicyError."""
    if text == "*":
        return Resource(None, "", is_prefix=True)
    kind, sign, name = (text or "").partition(":")
    if kind.lower() not in _KINDS or not sign or not name:
        raise PolicyError(f"The resource {(text or '')[:100]!r} is not Topic:name, Group:name, Cluster:name or *.")
    name, is_prefix = name.removesuffix("*"), name.endswith("*")
    if "*" in name:
        raise PolicyError(
            f"The resource {(text or '')[:100]!r} has a * before its end: only a name that ends with * is a pattern."
        )
    return Resource(_KINDS[kind.lower()], name, is_prefix)


def parse_policy_type(text: str | None) -> str:
    """Return the name of a type of policy, Custom if there is none. Raises PolicyError."""
    for one in POLICY_TYPES:
        if (text or CUSTOM).lower() == one.lower():
            return one
    raise PolicyError(f"The policy type {(text or '')[:20]!r} is not {' or '.join(POLICY_TYPES)}.")


def parse_entry(resource: str | None, actions: Iterable[str], sources: Iterable[str], decision: str | None) -> Entry:
    """Return an entry from RocketMQ's texts. Raises PolicyError."""
    wanted = set()
    for text in actions:
        if text.lower() not in _ACTIONS:
            raise PolicyError(f"The action {text[:20]!r} is not one of {', '.join(Action)}.")
        wanted.add(_ACTIONS[text.lower()])
    if not wanted:
        raise PolicyError("The actions is empty.")
    if (decision or "").lower() not in _DECISIONS:
        raise PolicyError("The decision is null or illegal.")
    try:
        networks = tuple(ipaddress.ip_network(one, strict=False) for one in sources)
    except ValueError:
        raise PolicyError("The source ip is invalid.") from None
    return Entry(parse_resource(resource), frozenset(wanted), networks, _DECISIONS[(decision or "").lower()])


def _deciding(entries: tuple[Entry, ...], need: Need, host: Host | None) -> Entry | None:
    """Return the most specific of the entries that decide; of two equal ones, the one that denies."""
    found = [one for one in entries if one.decides(need, host)]
    return max(found, key=lambda one: (one.resource.precedence, not one.is_allowed), default=None)

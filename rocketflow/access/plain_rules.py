"""Accounts of RocketMQ 4: their content as `plain_acl.yml` has it, and what they allow.

RocketMQ's source: acl/plain/PlainPermissionManager.java, PlainAccessValidator.java, acl/common/Permission.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.addresses import AddressPattern, Host, parse_addresses
from rocketflow.access.permissions import READS, Action, Audience, Kind, Need, Row
from rocketflow.access.signatures import SignatureCheck, check_signature
from rocketflow.errors import RocketFlowError
from rocketflow.remoting.signature import ACCESS_KEY, is_signed

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command

Permissions = frozenset[Action]

KEY_MIN_LENGTH: Final = 7
MOST_ACCOUNTS: Final = 10_000

_NOTHING: Final[Permissions] = frozenset()
_PERMISSIONS: Final[Mapping[str, Permissions]] = {
    "DENY": _NOTHING,
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB}),
}
_BOOLEANS: Final = {"true": True, "false": False, "": False}
_TOP: Final = frozenset({"globalWhiteRemoteAddresses", "accounts", "dataVersion"})
_OF_ACCOUNT: Final = frozenset(
    {
        *("accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm"),
        *("topicPerms", "groupPerms"),
    }
)


class PlainRulesError(RocketFlowError, ValueError):
    """The content is no description of accounts; the text never has a secret."""


@dataclass(frozen=True, slots=True)
class Account:
    """One account; `perms` are those that are named, by kind and name, `defaults` those of all others."""

    access_key: str
    secret_key: str = field(repr=False)
    is_admin: bool
    addresses: tuple[AddressPattern, ...]
    defaults: Mapping[Kind, Permissions]
    perms: Mapping[tuple[Kind, str], Permissions]

    def allows(self, need: Need) -> bool:
        """Return whether the account has one of the permissions that a need names; others are not checked.

        RocketMQ 4 has no permission to get: SUB is needed to read. A need of the cluster is that of an administrator.
        """
        if need.kind is Kind.CLUSTER:
            return self.is_admin
        wanted = need.actions & {Action.PUB, Action.SUB}
        if need.actions <= READS:
            wanted = frozenset({Action.SUB})
        return not wanted or bool(wanted & self.perms.get((need.kind, need.name), self.defaults[need.kind]))


@dataclass(frozen=True, slots=True)
class PlainRules:
    """The accounts of a server, by access key, and the addresses from which everything is allowed."""

    addresses: tuple[AddressPattern, ...] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)

    def refusal(
        self, row: Row, command: Command, host: Host | None, check: SignatureCheck = check_signature
    ) -> str | None:
        """Return why a request is refused, None if it is allowed. Raises HeaderError and BodyError."""
        if any(one.matches(host) for one in self.addresses):
            return None
        access_key = command.fields.get(ACCESS_KEY)
        if access_key is None:
            return "No accessKey is configured"
        account = self.accounts.get(access_key)
        if account is None:
            return f"No acl config for {access_key}"
        if any(one.matches(host) for one in account.addresses):
            return None
        why = check(command, account.secret_key, f"Check signature failed for accessKey={access_key}")
        if why is not None:
            return why
        if row.audience is not Audience.CLIENT:
            if account.is_admin or (row.audience is Audience.ADMIN and row.is_read):
                return None
            return f"Need admin permission for request code={command.code}, but accessKey={access_key} is not"
        return _lacked(account, row.needs_of(command))

    def account_of(self, command: Command, host: Host | None) -> str:
        """Return the access key of the account that sent a request, "" if none is proven."""
        account = self.accounts.get(command.fields.get(ACCESS_KEY, ""))
        if account is None:
            return ""
        is_known = any(one.matches(host) for one in account.addresses) or is_signed(command, account.secret_key)
        return account.access_key if is_known else ""

    def lacked(self, name: str, needs: Iterable[Need], host: Host | None) -> str | None:
        """Return why an account may not do at once what `needs` say, None if it may."""
        if any(one.matches(host) for one in self.addresses):
            return None
        account = self.accounts.get(name)
        if account is None:
            return f"No acl config for {name}"
        return None if any(one.matches(host) for one in account.addresses) else _lacked(account, needs)


def _lacked(account: Account, needs: Iterable[Need]) -> str | None:
    if account.is_admin and not account.perms:
        return None
    for need in needs:
        if not account.allows(need):
            return f"No default permission for {need.kind} {need.name}".rstrip()
    return None


def parse_rules(document: object) -> PlainRules:
    """Return the rules of a YAML document whose scalars are texts. Raises PlainRulesError."""
    if document in (None, ""):
        return PlainRules()
    top = _mapping(document, "the file", _TOP)
    addresses: list[AddressPattern] = []
    for text in _texts(top, "globalWhiteRemoteAddresses", "the file"):
        addresses += _addresses(text, "globalWhiteRemoteAddresses")
    listed = top.get("accounts") or []
    if not isinstance(listed, list):
        raise PlainRulesError("accounts: a list is expected")
    return merged_rules([PlainRules(tuple(addresses)), *(_account_rules(one, at) for at, one in enumerate(listed, 1))])


def merged_rules(parts: list[PlainRules]) -> PlainRules:
    """Return the rules of all parts. Raises PlainRulesError if two have the same access key, or all have too many."""
    accounts: dict[str, Account] = {}
    for one in parts:
        for access_key, account in one.accounts.items():
            if access_key in accounts:
                raise PlainRulesError(f"accessKey {access_key} occurs twice: remove one of its accounts")
            accounts[access_key] = account
    if len(accounts) > MOST_ACCOUNTS:
        raise PlainRulesError(f"there are {len(accounts):,} accounts, at most {MOST_ACCOUNTS:,} are allowed")
    return PlainRules(tuple(address for one in parts for address in one.addresses), accounts)


def _account_rules(document: object, number: int) -> PlainRules:
    where = f"account {number}"
    given = _mapping(document, where, _OF_ACCOUNT)
    access_key, secret_key = _text(given, "accessKey", where), _text(given, "secretKey", where)
    for name, value in (("accessKey", access_key), ("secretKey", secret_key)):
        if len(value) < KEY_MIN_LENGTH:
            raise PlainRulesError(f"{where}: {name} is shorter than {KEY_MIN_LENGTH} characters")
    where = f"accessKey {access_key}"
    admin = _text(given, "admin", where).lower()
    if admin not in _BOOLEANS:
        raise PlainRulesError(f"{where}: admin: true or false is expected, not {admin[:20]!r}")
    perms = {
        (kind, name): permissions
        for kind, key in ((Kind.TOPIC, "topicPerms"), (Kind.GROUP, "groupPerms"))
        for name, permissions in (_permission(text, f"{where}: {key}") for text in _texts(given, key, where))
    }
    defaults = {
        kind: _permissions(_text(given, key, where) or "DENY", f"{where}: {key}")
        for kind, key in ((Kind.TOPIC, "defaultTopicPerm"), (Kind.GROUP, "defaultGroupPerm"))
    }
    addresses = _addresses(_text(given, "whiteRemoteAddress", where), f"{where}: whiteRemoteAddress")
    account = Account(access_key, secret_key, _BOOLEANS[admin], addresses, {**defaults, Kind.CLUSTER: _NOTHING}, perms)
    return PlainRules((), {access_key: account})


def _permission(text: str, where: str) -> tuple[str, Permissions]:
    """Return name and permissions of `name=PUB|SUB`."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise PlainRulesError(f"{where}: {text[:100]!r} is not NAME=PERMISSION")
    return name.strip(), _permissions(value, f"{where}: {name.strip()[:100]}")


def _permissions(text: str, where: str) -> Permissions:
    found = _PERMISSIONS.get(text.strip())
    if found is None:
        raise PlainRulesError(f"{where}: {text.strip()[:20]!r} is not one of {', '.join(_PERMISSIONS)}")
    return found


def _addresses(text: str, where: str) -> tuple[AddressPattern, ...]:
    try:
        return parse_addresses(text)
    except ValueError as error:
        raise PlainRulesError(f"{where}: {error}") from None


def _mapping(document: object, where: str, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise PlainRulesError(f"{where}: names and values are expected ({', '.join(sorted(known))})")
    for name in document:
        if name not in known:
            raise PlainRulesError(f"{where}: unknown name {str(name)[:100]!r}; known are {', '.join(sorted(known))}")
    return document


def _text(given: Mapping[str, Any], name: str, where: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise PlainRulesError(f"{where}: {name}: one text is expected")
    return value.strip()


def _texts(given: Mapping[str, Any], name: str, where: str) -> list[str]:
    value = given.get(name) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise PlainRulesError(f"{where}: {name}: a list of texts is expected")
    return value

"""Users of RocketMQ 5, their policies, and what they allow. The tables change by requests 3001 to 3010.

RocketMQ's source: auth/authentication/manager/AuthenticationMetadataManagerImpl.java,
auth/authorization/manager/AuthorizationMetadataManagerImpl.java, auth/authentication/chain/**,
auth/authorization/chain/**.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from rocketflow.access.permissions import Action, Audience, Kind, Need, Row
from rocketflow.access.policies import (
    CUSTOM,
    DEFAULT,
    Policies,
    PolicyError,
    parse_entry,
    parse_policy_type,
    parse_resource,
)
from rocketflow.access.signatures import SignatureCheck, check_signature
from rocketflow.errors import RocketFlowError
from rocketflow.remoting.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rocketflow.remoting.signature import ACCESS_KEY, JOB_ACCESS_KEY

if TYPE_CHECKING:
    from rocketflow.access.addresses import Host
    from rocketflow.remoting.command import Command

SUBJECT: Final = "User:"
SUPER: Final = "Super"
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"
MOST_USERS: Final = 10_000
MOST_ENTRIES: Final = 10_000
MOST_NAME: Final = 255


class UserError(RocketFlowError):
    """A change of users or policies is refused; the text says why."""


class UserTables(msgspec.Struct, frozen=True, kw_only=True):
    """Users by name, and their policies by name, as RocketMQ's bodies hold them."""

    users: dict[str, UserInfo] = {}
    acls: dict[str, AclInfo] = {}

    def with_user(self, name: str, given: UserInfo, *, is_new: bool) -> UserTables:
        """Return the tables with a user made or changed; what is not given stays. Raises UserError."""
        old = self.users.get(name)
        if is_new and old is not None:
            raise UserError("The user is existed")
        if not is_new and old is None:
            raise UserError("The user is not exist")
        if not name.strip() or len(name) > MOST_NAME or name == JOB_ACCESS_KEY:
            raise UserError(f"a user's name has 1 to {MOST_NAME} characters and is not {JOB_ACCESS_KEY}")
        if old is None and len(self.users) >= MOST_USERS:
            raise UserError(f"there are {MOST_USERS:,} users: delete some")
        before = old or UserInfo(user_type=NORMAL, user_status=ENABLED)
        password = given.password if given.password and given.password.strip() else before.password
        if not password:
            raise UserError("password can not be blank")
        user = UserInfo(
            username=name,
            password=password,
            user_type=_named(given.user_type, (SUPER, NORMAL), before.user_type),
            user_status=_named(given.user_status, (ENABLED, DISABLED), before.user_status),
        )
        return UserTables(users={**self.users, name: user}, acls=self.acls)

    def without_user(self, name: str) -> UserTables:
        """Return the tables without a user and its policies."""
        users, acls = dict(self.users), dict(self.acls)
        users.pop(name, None)
        acls.pop(name, None)
        return UserTables(users=users, acls=acls)

    def with_policies(self, name: str, given: AclInfo) -> UserTables:
        """Return the tables with policies of a user added: an entry replaces that of its resource. Raises UserError."""
        if name not in self.users:
            raise UserError(f"The subject of {SUBJECT}{name} is not exist.")
        if not given.policies:
            raise UserError("The policies is empty.")
        old = self.acls.get(name) or AclInfo()
        merged = {one.policy_type or CUSTOM: {entry.resource: entry for entry in one.entries} for one in old.policies}
        try:
            for policy in given.policies:
                if not policy.entries:
                    raise UserError("The policy entries is empty.")
                entries = merged.setdefault(parse_policy_type(policy.policy_type), {})
                for entry in policy.entries:
                    normal = _normal(entry)
                    entries[normal.resource] = normal
        except PolicyError as error:
            raise UserError(str(error)) from None
        if sum(len(one) for one in merged.values()) > MOST_ENTRIES:
            raise UserError(f"a user has at most {MOST_ENTRIES:,} entries")
        return self._with_acl(name, merged)

    def without_policies(self, name: str, policy_type: str | None, resource: str | None) -> UserTables:
        """Return the tables without an entry of a user, or without all its policies. Raises UserError."""
        if name not in self.users:
            raise UserError("The subject is not exist.")
        old = self.acls.get(name)
        if old is None:
            raise UserError("The acl is not exist.")
        if not resource:
            return self._with_acl(name, {})
        try:
            of_type, wanted = parse_policy_type(policy_type), str(parse_resource(resource))
        except PolicyError as error:
            raise UserError(str(error)) from None
        kept = {
            one.policy_type or CUSTOM: {
                entry.resource: entry for entry in one.entries if one.policy_type != of_type or entry.resource != wanted
            }
            for one in old.policies
        }
        return self._with_acl(name, kept)

    def _with_acl(self, name: str, entries: Mapping[str, Mapping[str | None, PolicyEntryInfo]]) -> UserTables:
        acls = {one: acl for one, acl in self.acls.items() if one != name}
        policies = [PolicyInfo(policy_type=kind, entries=list(of.values())) for kind, of in entries.items() if of]
        if policies:
            acls[name] = AclInfo(subject=f"{SUBJECT}{name}", policies=policies)
        return UserTables(users=self.users, acls=acls)


@dataclass(slots=True)
class UserRules:
    """The users of a broker; `authorizes` says whether policies count, else any user may do what users do.

    Requests of the codes in the lists are not checked. Requests about users need a super user or, with policies, the
    cluster.
    """

    cluster: str
    authorizes: bool = False
    unauthenticated: frozenset[int] = frozenset()
    unauthorized: frozenset[int] = frozenset()
    _tables: UserTables = field(default_factory=UserTables)
    _policies: dict[str, Policies] = field(default_factory=dict)

    @property
    def tables(self) -> UserTables:
        """The users and policies in effect."""
        return self._tables

    @tables.setter
    def tables(self, tables: UserTables) -> None:
        """Let users and policies take effect. Raises PolicyError."""
        self._policies = {name: _policies(acl) for name, acl in tables.acls.items()}
        self._tables = tables

    def refusal(
        self, row: Row, command: Command, host: Host | None, check: SignatureCheck = check_signature
    ) -> str | None:
        """Return why a request is refused, None if it is allowed. Raises HeaderError and BodyError."""
        unknown = self._unauthenticated(command, check)
        if unknown is not None and command.code not in self.unauthenticated:
            return unknown
        name = "" if unknown is not None else command.fields[ACCESS_KEY]
        if name and self._tables.users[name].user_type == SUPER:
            return None
        if row.of_users or row.audience is Audience.JOB:
            if not self.authorizes:
                return "a super user is needed"
        elif not self.authorizes or command.code in self.unauthorized:
            return None
        return self._lacked(name, row.needs_of(command), host)

    def account_of(self, command: Command, host: Host | None) -> str:
        """Return the user that signed a request, "" if none did; the host proves nothing."""
        return command.fields[ACCESS_KEY] if self._unauthenticated(command) is None else ""

    def lacked(self, name: str, needs: Iterable[Need], host: Host | None) -> str | None:
        """Return why a user may not do at once what `needs` say, None if it may."""
        user = self._tables.users.get(name)
        if user is None or user.user_status == DISABLED:
            return f"{SUBJECT}{name} is not found or disabled."
        return None if user.user_type == SUPER or not self.authorizes else self._lacked(name, needs, host)

    def _lacked(self, name: str, needs: Iterable[Need], host: Host | None) -> str | None:
        policies = self._policies.get(name, Policies())
        for need in needs:
            wanted = need._replace(name=self.cluster) if need.kind is Kind.CLUSTER else need
            if (why := policies.refusal(wanted, host)) is not None:
                return f"{SUBJECT}{name} has no permission to access {wanted.kind}:{wanted.name} from {host}, {why}"
        return None

    def is_super(self, command: Command) -> bool:
        """Return whether a super user has signed a request. Raises HeaderError."""
        user = self._tables.users.get(command.fields.get(ACCESS_KEY, ""))
        return user is not None and user.user_type == SUPER and self._unauthenticated(command) is None

    def _unauthenticated(self, command: Command, check: SignatureCheck = check_signature) -> str | None:
        """Return why the sender of a request is not known, None if it is."""
        name = command.fields.get(ACCESS_KEY)
        if not name:
            return "username cannot be null."
        user = self._tables.users.get(name)
        if user is None:
            return f"{SUBJECT}{name} is not found."
        if user.user_status == DISABLED:
            return f"{SUBJECT}{name} is disabled."
        return check(command, user.password or "", "check signature failed.")


def _policies(acl: AclInfo) -> Policies:
    entries = {
        one.policy_type: tuple(
            parse_entry(
                entry.resource,
                entry.actions,
                () if entry.source_ips is msgspec.UNSET else entry.source_ips,
                entry.decision,
            )
            for entry in one.entries
        )
        for one in acl.policies
    }
    return Policies(entries.get(CUSTOM, ()), entries.get(DEFAULT, ()))


def _normal(entry: PolicyEntryInfo) -> PolicyEntryInfo:
    """Return an entry in RocketMQ's spelling. Raises PolicyError."""
    sources = [] if entry.source_ips is msgspec.UNSET else [one for one in entry.source_ips if one]
    parsed = parse_entry(entry.resource, entry.actions, sources, entry.decision)
    return PolicyEntryInfo(
        resource=str(parsed.resource),
        actions=[one.value for one in Action if one in parsed.actions],
        decision="Allow" if parsed.is_allowed else "Deny",
        source_ips=sources or msgspec.UNSET,
    )


def _named(text: str | None, known: tuple[str, ...], before: str | None) -> str | None:
    """Return a name in RocketMQ's spelling; the one before if there is none. Raises UserError."""
    if not text:
        return before
    for one in known:
        if text.lower() == one.lower():
            return one
    raise UserError(f"{text[:20]!r} is not {' or '.join(known)}")

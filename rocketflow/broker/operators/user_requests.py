"""Requests of operators about users and their policies, which are kept in `config/rocketflowUsers.json`.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java (createUser to listAcl),
broker/auth/converter/UserConverter.java, AclConverter.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rocketflow.access.permissions import CLUSTER_CHANGE, CLUSTER_READ
from rocketflow.access.policies import PolicyError
from rocketflow.access.served import serves
from rocketflow.access.user_rules import SUBJECT, SUPER, UserError, UserRules, UserTables
from rocketflow.aio.server import RefusedError, Request
from rocketflow.errors import UsageError
from rocketflow.remoting.bodies import AclInfo, UserInfo, decode_body, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import auth as headers
from rocketflow_store import StoreError

if TYPE_CHECKING:
    from rocketflow.broker.user_settings import UserSettings
    from rocketflow.remoting.signature import Credentials
    from rocketflow_store.spi.broker import WritingStore

USERS_FILE: Final = "rocketflowUsers.json"

_CHANGE: Final = CLUSTER_CHANGE._replace(of_users=True)
_READ: Final = CLUSTER_READ._replace(of_users=True)


class UserRequests:
    """Requests 3001 to 3010, and the file of users; `rules` have its content."""

    def __init__(self, store: WritingStore, cluster: str, settings: UserSettings) -> None:
        """Load the users and make the first ones. Blocks. Raises UsageError and StoreError."""
        self._file = store.json_file(USERS_FILE)
        self._changing = asyncio.Lock()
        self.rules = UserRules(cluster, settings.authorizes, settings.unauthenticated, settings.unauthorized)
        tables = _tables(self._file.load(), str(self._file.path))
        with_first = _with_first(tables, settings.first_users)
        if not with_first.users:
            raise UsageError(
                "authenticationEnabled=true, and there is no user: set initAuthenticationUser to "
                '{"username":"...","password":"..."} for the first start'
            )
        if with_first is not tables:
            self._file.save(_document(with_first))
        self.rules.tables = with_first

    # --- users

    @serves(RequestCode.AUTH_CREATE_USER, _CHANGE)
    async def _create_user(self, request: Request) -> None:
        await self._put_user(request, is_new=True)

    @serves(RequestCode.AUTH_UPDATE_USER, _CHANGE)
    async def _update_user(self, request: Request) -> None:
        await self._put_user(request, is_new=False)

    async def _put_user(self, request: Request, *, is_new: bool) -> None:
        name = request.command.header(headers.UserRequestHeader).username or ""
        if not name:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "The username is blank")
        given = decode_body(request.command.body, UserInfo)
        self._check_super(request, name, (given.user_type or "").lower() == SUPER.lower())
        await self._change(lambda tables: tables.with_user(name, given, is_new=is_new))
        request.reply()

    @serves(RequestCode.AUTH_DELETE_USER, _CHANGE)
    async def _delete_user(self, request: Request) -> None:
        name = request.command.header(headers.UserRequestHeader).username or ""
        self._check_super(request, name)
        await self._change(lambda tables: tables.without_user(name))
        request.reply()

    def _check_super(self, request: Request, name: str, wanted: bool = False) -> None:
        """Let only super users make, change and delete super users."""
        user = self.rules.tables.users.get(name)
        if (wanted or (user is not None and user.user_type == SUPER)) and not self.rules.is_super(request.command):
            raise RefusedError(ResponseCode.NO_PERMISSION, "The super user can only be changed by a super user")

    @serves(RequestCode.AUTH_GET_USER, _READ)
    def _get_user(self, request: Request) -> None:
        name = request.command.header(headers.UserRequestHeader).username or ""
        if not name.strip():
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "The username is blank")
        user = self.rules.tables.users.get(name)
        self._check_super(request, name)
        request.reply(body=b"" if user is None else encode_body(user))

    @serves(RequestCode.AUTH_LIST_USER, _READ)
    def _list_users(self, request: Request) -> None:
        wanted = request.command.header(headers.ListUsersRequestHeader).filter or ""
        may_see_all = self.rules.is_super(request.command)
        found = [
            one
            for name, one in sorted(self.rules.tables.users.items())
            if wanted in name and (may_see_all or one.user_type != SUPER)
        ]
        request.reply(body=encode_body(found) if found else b"")

    # --- policies

    @serves(RequestCode.AUTH_CREATE_ACL, _CHANGE)
    @serves(RequestCode.AUTH_UPDATE_ACL, _CHANGE)
    async def _put_policies(self, request: Request) -> None:
        subject = request.command.header(headers.AclRequestHeader).subject
        given = decode_body(request.command.body, AclInfo)
        name = _user_of(given.subject or subject)
        await self._change(lambda tables: tables.with_policies(name, given))
        request.reply()

    @serves(RequestCode.AUTH_DELETE_ACL, _CHANGE)
    async def _delete_policies(self, request: Request) -> None:
        header = request.command.header(headers.DeleteAclRequestHeader)
        name = _user_of(header.subject)
        await self._change(lambda tables: tables.without_policies(name, header.policy_type, header.resource))
        request.reply()

    @serves(RequestCode.AUTH_GET_ACL, _READ)
    def _get_policies(self, request: Request) -> None:
        name = _user_of(request.command.header(headers.AclRequestHeader).subject)
        if name not in self.rules.tables.users:
            raise RefusedError(ResponseCode.NO_PERMISSION, "The subject is not exist.")
        found = self.rules.tables.acls.get(name)
        request.reply(body=b"" if found is None else encode_body(found))

    @serves(RequestCode.AUTH_LIST_ACL, _READ)
    def _list_policies(self, request: Request) -> None:
        header = request.command.header(headers.ListAclsRequestHeader)
        subject, resource = header.subject_filter or "", header.resource_filter or ""
        found = [
            one
            for one in (_filtered(acl, resource) for acl in self.rules.tables.acls.values())
            if one.policies and subject in (one.subject or "")
        ]
        request.reply(body=encode_body(found) if found else b"")

    async def _change(self, change: Callable[[UserTables], UserTables]) -> None:
        """Change the tables, write the file, then let the change take effect. Raises RefusedError."""
        async with self._changing:
            try:
                tables = change(self.rules.tables)
            except UserError as error:
                raise RefusedError(ResponseCode.NO_PERMISSION, str(error)) from None
            try:
                await asyncio.to_thread(self._file.save, _document(tables))
            except StoreError as error:
                raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
            self.rules.tables = tables


def _user_of(subject: str | None) -> str:
    """Return the name in `User:name`. Raises RefusedError."""
    if not (subject or "").startswith(SUBJECT):
        raise RefusedError(ResponseCode.NO_PERMISSION, f"The subject {subject!r} is not {SUBJECT}name.")
    return (subject or "").removeprefix(SUBJECT)


def _filtered(acl: AclInfo, resource: str) -> AclInfo:
    """Return the policies about resources whose text has `resource` in it."""
    policies = [
        msgspec.structs.replace(one, entries=[entry for entry in one.entries if resource in (entry.resource or "")])
        for one in acl.policies
    ]
    return AclInfo(subject=acl.subject, policies=[one for one in policies if one.entries])


def _with_first(tables: UserTables, first: tuple[Credentials, ...]) -> UserTables:
    """Return the tables with the users of the settings that do not exist, as super users. Raises UsageError."""
    for one in first:
        if one.access_key not in tables.users:
            given = UserInfo(password=one.secret_key, user_type=SUPER)
            try:
                tables = tables.with_user(one.access_key, given, is_new=True)
            except UserError as error:
                raise UsageError(f"initAuthenticationUser or innerClientAuthenticationCredentials: {error}") from None
    return tables


def _document(tables: UserTables) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(tables)
    return found


def _tables(document: dict[str, Any], path: str) -> UserTables:
    """Return the tables of the file's content. Raises UsageError, whose text has no password."""
    try:
        tables = msgspec.convert(document, UserTables)
        UserRules("").tables = tables  # raise PolicyError
        return tables
    except (msgspec.ValidationError, PolicyError) as error:
        raise UsageError(f"{path}: {error}: restore the file or its .bak, or delete both to begin again") from None

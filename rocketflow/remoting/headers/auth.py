"""Headers of an operator's requests about users and their policies."""

from __future__ import annotations

from rocketflow.remoting.headers.header import Header


class UserRequestHeader(Header, kw_only=True):
    """3001 AUTH_CREATE_USER to 3004 AUTH_GET_USER."""

    username: str | None = None


class ListUsersRequestHeader(Header, kw_only=True):
    """3005 AUTH_LIST_USER."""

    filter: str | None = None


class AclRequestHeader(Header, kw_only=True):
    """3006 AUTH_CREATE_ACL, 3007 AUTH_UPDATE_ACL and 3009 AUTH_GET_ACL."""

    subject: str | None = None


class DeleteAclRequestHeader(Header, kw_only=True):
    """3008 AUTH_DELETE_ACL."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequestHeader(Header, kw_only=True):
    """3010 AUTH_LIST_ACL."""

    subject_filter: str | None = None
    resource_filter: str | None = None

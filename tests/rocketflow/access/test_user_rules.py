"""Users and policies of RocketMQ 5: which entry decides, and which changes are refused."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.access.permissions import Action, Kind, Need
from rocketflow.access.policies import Entry, Policies, PolicyError, parse_entry, parse_resource
from rocketflow.access.user_rules import DISABLED, NORMAL, SUPER, UserError, UserRules, UserTables
from rocketflow.remoting.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.signature import JOB_ACCESS_KEY, Credentials, sign
from tests.support.processed_codes import ROWS

CODE = RequestCode
HERE = ipaddress.ip_address("10.1.2.3")
ROOT = Credentials("root", "secret-of-root")
BOB = Credentials("bob", "secret-of-bob")


def entry(resource: str, actions: str = "All", decision: str = "Allow", *sources: str) -> Entry:
    """Return an entry of a policy."""
    return parse_entry(resource, actions.split(","), sources, decision)


def is_allowed(policies: Policies, name: str, *actions: Action, kind: Kind = Kind.TOPIC) -> bool:
    """Return whether policies allow an action on a resource."""
    return policies.refusal(Need(kind, name, frozenset(actions)), HERE) is None


def test_the_most_specific_entry_decides() -> None:
    policies = Policies(
        (
            entry("*", "All", "Deny"),
            entry("Topic:*", "Pub,Sub"),
            entry("Topic:o*", "Pub", "Deny"),
            entry("Topic:ord*", "Pub"),
            entry("Topic:orders", "Pub", "Deny"),
        )
    )
    expected = {"orders": False, "order": True, "other": False, "any": True}
    assert {name: is_allowed(policies, name, Action.PUB) for name in expected} == expected
    assert is_allowed(policies, "orders", Action.SUB)
    assert not is_allowed(policies, "orders", Action.DELETE)
    assert not is_allowed(policies, "g", Action.SUB, kind=Kind.GROUP)
    assert is_allowed(policies, "orders", Action.PUB, Action.SUB) is False


def test_default_entries_count_where_no_custom_one_decides() -> None:
    policies = Policies((entry("Topic:a", "Pub", "Deny"),), (entry("Topic:*", "Pub"),))
    assert not is_allowed(policies, "a", Action.PUB)
    assert is_allowed(policies, "b", Action.PUB)
    assert not is_allowed(Policies(), "b", Action.PUB)


def test_entries_with_sources_are_for_these_addresses_only() -> None:
    near = Policies((entry("Topic:*", "Pub", "Allow", "10.1.0.0/16", "::1"),))
    need = Need(Kind.TOPIC, "t", frozenset({Action.PUB}))
    assert near.refusal(need, HERE) is None
    assert near.refusal(need, ipaddress.ip_address("::1")) is None
    assert near.refusal(need, ipaddress.ip_address("10.2.0.1")) is not None
    assert near.refusal(need, None) is not None


NAMES = st.text("ab", max_size=3)


@given(st.lists(st.tuples(NAMES, st.booleans(), st.booleans())), NAMES)
def test_prefixes_decide_by_their_length(given_entries: list[tuple[str, bool, bool]], name: str) -> None:
    """Compare with a model: the longest prefix, exact names first, and of two equal ones the denial."""
    policies = Policies(
        tuple(
            Entry(
                parse_resource(f"Topic:{one}*" if is_prefix else f"Topic:{one or 'a'}"), frozenset({Action.PUB}), (), ok
            )
            for one, is_prefix, ok in given_entries
        )
    )
    decision = False
    for length in range(4):
        decided = [
            ok for one, is_prefix, ok in given_entries if is_prefix and one == name[:length] and length <= len(name)
        ]
        decision = all(decided) if decided else decision
    exact = [ok for one, is_prefix, ok in given_entries if not is_prefix and (one or "a") == name]
    assert is_allowed(policies, name, Action.PUB) is (all(exact) if exact else decision)


UNUSABLE = (
    "",
    "t",
    "Topic",
    "Topic:",
    "Topics:t",
    ":t",
    "**",
    "Topic:salary*test",
    "Group:a*b*",
    "Topic:**",
    "Topic:*a",
)


@pytest.mark.parametrize("text", UNUSABLE)
def test_texts_that_name_no_resource_are_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        parse_resource(text)


@pytest.mark.parametrize(
    ("actions", "decision", "source"),
    [
        ("Fly", "Allow", "::1"),
        ("Any", "Allow", "::1"),
        ("", "Allow", "::1"),
        ("Pub", "Maybe", "::1"),
        ("Pub", "", "::1"),
    ]
    + [("Pub", "Allow", one) for one in ("", "x", "10.1.2", "10.0.0.0/33", "host/24")],
)
def test_entries_that_mean_nothing_are_refused(actions: str, decision: str, source: str) -> None:
    with pytest.raises(PolicyError):
        entry("Topic:t", actions, decision, source)


def tables(*users: Credentials, kind: str = NORMAL) -> UserTables:
    """Return tables with the super user root and other users."""
    found = UserTables().with_user("root", UserInfo(password=ROOT.secret_key, user_type=SUPER), is_new=True)
    for one in users:
        found = found.with_user(one.access_key, UserInfo(password=one.secret_key, user_type=kind), is_new=True)
    return found


def policy(resource: str, *actions: str, decision: str = "Allow", kind: str | None = None) -> AclInfo:
    """Return a policy with one entry."""
    one = PolicyEntryInfo(resource=resource, actions=list(actions), decision=decision)
    return AclInfo(policies=[PolicyInfo(entries=[one], policy_type=kind)])


def rules(
    found: UserTables,
    *,
    authorizes: bool = True,
    unchecked: frozenset[int] = frozenset(),
    unauthorized: frozenset[int] = frozenset(),
) -> UserRules:
    """Return rules of tables; `unchecked` codes need no authentication, `unauthorized` ones no policy."""
    made = UserRules("C", authorizes, unchecked, unauthorized)
    made.tables = found
    return made


def refusal(found: UserRules, code: int, by: Credentials | None, **fields: str) -> str | None:
    """Return why a request by a user is refused."""
    command = Command(code, fields)
    if by is not None:
        sign(command, by)
    return found.refusal(ROWS[code], command, HERE)


def test_users_have_to_exist_to_be_enabled_and_to_sign() -> None:
    found = rules(tables(BOB).with_policies("bob", policy("Topic:t", "Pub")))
    assert refusal(found, CODE.SEND_MESSAGE, BOB, topic="t") is None
    assert refusal(found, CODE.SEND_MESSAGE, None, topic="t") == "username cannot be null."
    assert refusal(found, CODE.SEND_MESSAGE, Credentials("eve", "x"), topic="t") == "User:eve is not found."
    assert refusal(found, CODE.SEND_MESSAGE, Credentials("bob", "x"), topic="t") == "check signature failed."
    found.tables = found.tables.with_user("bob", UserInfo(user_status="DISABLE"), is_new=False)
    assert found.tables.users["bob"].user_status == DISABLED
    assert refusal(found, CODE.SEND_MESSAGE, BOB, topic="t") == "User:bob is disabled."


def test_policies_decide_for_users_and_not_for_super_users() -> None:
    found = rules(tables(BOB).with_policies("bob", policy("Topic:t", "Pub")))
    for code in (CODE.SEND_MESSAGE, CODE.UPDATE_AND_CREATE_TOPIC, CODE.AUTH_CREATE_USER, CODE.ROCKETFLOW_REQUEUE):
        assert refusal(found, code, ROOT, topic="other") is None
    why = refusal(found, CODE.SEND_MESSAGE, BOB, topic="other")
    assert why == "User:bob has no permission to access Topic:other from 10.1.2.3, no matched policies."
    assert refusal(found, CODE.AUTH_LIST_USER, BOB) is not None
    found.tables = found.tables.with_policies("bob", policy("Cluster:C", "Get"))
    assert refusal(found, CODE.AUTH_LIST_USER, BOB) is None
    assert refusal(found, CODE.AUTH_CREATE_USER, BOB) is not None
    assert refusal(found, CODE.GET_BROKER_CONFIG, BOB) is None


def test_without_policies_users_may_do_everything_but_change_users() -> None:
    found = rules(tables(BOB), authorizes=False)
    assert refusal(found, CODE.UPDATE_AND_CREATE_TOPIC, BOB, topic="t") is None
    for code in (CODE.AUTH_GET_USER, CODE.AUTH_CREATE_ACL, CODE.ROCKETFLOW_COMMIT_BATCH):
        assert refusal(found, code, BOB) == "a super user is needed"
        assert refusal(found, code, ROOT) is None


def test_a_name_that_was_not_checked_has_no_rights() -> None:
    listed = frozenset({CODE.SEND_MESSAGE, CODE.AUTH_CREATE_USER})
    forged = Credentials("root", "x")
    found = rules(tables(), unchecked=listed)
    assert refusal(found, CODE.SEND_MESSAGE, forged, topic="t") is not None
    assert refusal(found, CODE.AUTH_CREATE_USER, forged) is not None
    open_to_all = rules(tables(), authorizes=False, unchecked=listed)
    assert refusal(open_to_all, CODE.SEND_MESSAGE, forged, topic="t") is None
    assert refusal(open_to_all, CODE.AUTH_CREATE_USER, forged) is not None
    assert not open_to_all.is_super(Command(CODE.AUTH_CREATE_USER, {"AccessKey": "root", "Signature": "x"}))


def test_codes_that_need_no_policy_need_a_user() -> None:
    listed = frozenset({CODE.SEND_MESSAGE, CODE.AUTH_CREATE_USER, CODE.ROCKETFLOW_REQUEUE})
    found = rules(tables(BOB), unauthorized=listed)
    assert refusal(found, CODE.SEND_MESSAGE, BOB, topic="t") is None
    assert refusal(found, CODE.PULL_MESSAGE, BOB, topic="t") is not None
    assert refusal(found, CODE.SEND_MESSAGE, None, topic="t") == "username cannot be null."
    assert refusal(found, CODE.SEND_MESSAGE, Credentials("bob", "x"), topic="t") == "check signature failed."
    for code in (CODE.AUTH_CREATE_USER, CODE.ROCKETFLOW_REQUEUE):
        assert refusal(found, code, BOB) is not None, "users and jobs are always checked"
    both = rules(tables(BOB), unchecked=listed, unauthorized=listed)
    assert refusal(both, CODE.SEND_MESSAGE, None, topic="t") is None


def test_changes_of_users_that_mean_nothing_are_refused() -> None:
    before = tables(BOB)
    for name, user, is_new in (
        ("bob", UserInfo(password="x"), True),
        ("eve", UserInfo(password="x"), False),
        ("eve", UserInfo(), True),
        ("eve", UserInfo(password="  "), True),
        (" ", UserInfo(password="x"), True),
        (JOB_ACCESS_KEY, UserInfo(password="x"), True),
        ("x" * 256, UserInfo(password="x"), True),
        ("eve", UserInfo(password="x", user_type="King"), True),
        ("bob", UserInfo(user_status="asleep"), False),
    ):
        with pytest.raises(UserError):
            before.with_user(name, user, is_new=is_new)


def test_entries_of_a_resource_are_replaced_and_removed() -> None:
    found = tables(BOB).with_policies("bob", policy("Topic:t", "Pub")).with_policies("bob", policy("topic:t", "sub"))
    found = found.with_policies("bob", policy("Group:g*", "Sub")).with_policies(
        "bob", policy("*", "Get", kind="default")
    )
    policies = found.acls["bob"].policies
    assert [(one.policy_type, [(e.resource, e.actions) for e in one.entries]) for one in policies] == [
        ("Custom", [("Topic:t", ["Sub"]), ("Group:g*", ["Sub"])]),
        ("Default", [("*", ["Get"])]),
    ]
    found = found.without_policies("bob", None, "Topic:t").without_policies("bob", "Custom", "Group:g*")
    assert [one.policy_type for one in found.acls["bob"].policies] == ["Default"]
    assert found.without_policies("bob", None, None).acls == {}
    assert found.without_user("bob").acls == {}
    for change in (
        lambda: found.with_policies("eve", policy("Topic:t", "Pub")),
        lambda: found.with_policies("bob", AclInfo()),
        lambda: found.with_policies("bob", AclInfo(policies=[PolicyInfo()])),
        lambda: found.with_policies("bob", policy("Topic:t", "Fly")),
        lambda: found.with_policies("bob", policy("Topic:t", "Pub", kind="Strange")),
        lambda: found.without_policies("root", None, None),
        lambda: found.without_policies("eve", None, None),
        lambda: found.without_policies("bob", "Strange", "Topic:t"),
    ):
        with pytest.raises(UserError):
            change()


def test_passwords_are_not_shown() -> None:
    assert BOB.secret_key not in repr(tables(BOB))

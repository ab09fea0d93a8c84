"""A writing store and a reader have one read interface: differences are listed here, with the reason in the code."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pytest

from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.reading.store_reads import StoreReads

OVERRIDES: Final[dict[type, frozenset[str]]] = {
    MessageStore: frozenset({"check_open", "get_message", "max_phy_offset", "refresh", "state"}),
    StoreReader: frozenset({"check_open", "max_phy_offset", "min_phy_offset", "refresh", "state"}),
}
SHARED: Final = sorted(one for one in vars(StoreReads) if not one.startswith("_"))
OF_BOTH: Final = frozenset({"close", "path"})
"""Names that are not reads: each facade opens and closes in its own way."""


def function_of(kind: type, name: str) -> Any:
    found = inspect.getattr_static(kind, name)
    return found.fget if isinstance(found, property) else found


def test_shared_interface_has_the_public_reads() -> None:
    known = {"bounds", "get_message", "look_message_by_offset", "query_by_tags", "query_message", "read", "read_units"}
    assert known | {"log_files", "max_offset", "min_offset", "queues", "topics", "view_message"} <= set(SHARED)


@pytest.mark.parametrize("kind", OVERRIDES)
def test_reads_are_inherited_unless_an_override_states_its_reason(kind: type) -> None:
    own = {name for name in SHARED if name in vars(kind)}
    assert own == OVERRIDES[kind]
    for name in SHARED:
        base, found = function_of(StoreReads, name), function_of(kind, name)
        if name in own:
            assert inspect.signature(found) == inspect.signature(base), name
            assert inspect.getdoc(found) not in (None, inspect.getdoc(base)), f"{name}: why does it override?"
        else:
            assert found is base, name


def test_facades_share_no_public_name_outside_of_the_interface() -> None:
    names = [{one for one in dir(kind) if not one.startswith("_")} for kind in OVERRIDES]
    assert (names[0] & names[1]) - set(SHARED) <= OF_BOTH

"""The public API changes only where its list changes: see `public_api`."""

from __future__ import annotations

import difflib

from tests.project.public_api import FILE, doors, text


def test_names_and_signatures_of_the_public_api_are_those_of_the_list() -> None:
    found = difflib.unified_diff(FILE.read_text("utf-8").splitlines(), text().splitlines(), lineterm="", n=0)
    assert list(found) == [], "write the list after a deliberate change: python -m tests.project.public_api"


def test_doors_of_the_public_api_are_found() -> None:
    assert {"rocketflow_store", "rocketflow_store.spi.reads", "rocketflow.client", "rocketflow.testing"} <= set(doors())
    listed = FILE.read_text("utf-8")
    assert all(f"# {one}\n" in listed for one in ("rocketflow_store", "rocketflow.client.sync", "rocketflow.testing"))

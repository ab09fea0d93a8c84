"""The checks of `rocketflow doctor` of limits that concern a store."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.cli.doctor.limits import Limit, limits
from rocketflow_store import StoreConfig

NAMES = ["open files", "file size", "locked memory", "memory maps", "swappiness"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., dict[str, Limit]]:
    """Return a function that gives the limits of a machine with these numbers."""

    def found(
        nofile: int = 1 << 20,
        fsize: int = -1,
        memlock: int = -1,
        maps: int = 655_360,
        swap: int = 10,
        cap: bool = False,
    ) -> dict[str, Limit]:
        numbers = {
            resource.RLIMIT_NOFILE: (nofile, 1 << 20),
            resource.RLIMIT_FSIZE: (fsize, -1),
            resource.RLIMIT_MEMLOCK: (memlock, -1),
        }
        monkeypatch.setattr(resource, "getrlimit", numbers.__getitem__)
        for name, text in (
            ("sys/vm/max_map_count", f"{maps}\n"),
            ("sys/vm/swappiness", f"{swap}\n"),
            ("self/status", f"Name:\tpython\nCapEff:\t{cap << 14:016x}\n"),
        ):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return {one.name: one for one in limits(StoreConfig(mapped_file_size_commit_log=1 << 30), tmp_path)}

    return found


def test_tuned_machine_has_no_remedies(machine: Callable[..., dict[str, Limit]]) -> None:
    found = machine()
    assert list(found) == NAMES
    assert all(one.ok and not one.remedy for one in found.values())


def test_each_limit_names_its_remedy(machine: Callable[..., dict[str, Limit]]) -> None:
    found = machine(nofile=256, fsize=1 << 20, memlock=65_536, maps=1000, swap=60)
    assert [name for name, one in found.items() if not one.ok] == ["open files", "file size", "memory maps"]
    for name, word in zip(
        NAMES, ("ulimit -n", "ulimit -f", "ulimit -l", "vm.max_map_count", "vm.swappiness"), strict=True
    ):
        assert word in found[name].remedy
    assert [one.value for one in found.values()] == [256, 1 << 20, 65_536, 1000, 60]
    assert f"{3 << 30:,}" in found["locked memory"].detail
    assert f"{5 << 30:,}" in found["locked memory"].detail


def test_default_desktop_can_write_a_store_but_has_remedies(machine: Callable[..., dict[str, Limit]]) -> None:
    found = machine(nofile=1024, memlock=8 << 20, maps=65_530, swap=60)
    assert all(one.ok for one in found.values())
    assert [name for name, one in found.items() if one.remedy] == [
        "open files",
        "locked memory",
        "memory maps",
        "swappiness",
    ]


def test_capability_replaces_the_limit_of_locked_memory(machine: Callable[..., dict[str, Limit]]) -> None:
    assert machine(memlock=65_536, cap=True)["locked memory"].remedy == ""


def test_system_without_sysctl_files_has_no_checks_of_them(
    machine: Callable[..., dict[str, Limit]], tmp_path: Path
) -> None:
    machine()
    for name in ("max_map_count", "swappiness"):
        (tmp_path / "sys/vm" / name).unlink()
    assert [one.name for one in limits(proc=tmp_path)] == NAMES[:3]


def test_doctor_prints_the_limits_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "--json"])
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks.keys() >= set(NAMES)
    run(["doctor"])
    text = capsys.readouterr().out
    for name in NAMES:
        assert checks[name]["detail"] in text
        assert checks[name]["remedy"] in text

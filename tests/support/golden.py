"""The golden stores, written by Apache RocketMQ: their names, settings and unpacking."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rocketflow_store import StoreConfig

CLOSED = ("basic-49", "basic-53", "basic-55", "expired-53", "features-53", "features-55", "propcrc-53")
CRASHED = ("crash-53-kill9", "crash-53-torn", "crash-55-kill9", "lost-derived-53")

GOLDEN = Path(__file__).parents[1] / "golden"


def extract(archive: Path, target: Path, wanted: Callable[[Path], bool] = lambda _: True) -> None:
    """Unpack the members whose paths are wanted."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # not before Python 3.11.4
        packed.extractall(target, [one for one in packed if wanted(Path(one.name))])


def profile_of(name: str) -> str:
    return "5.5" if "-55" in name else "5.3"


def config_of(name: str) -> StoreConfig:
    values: dict[str, Any] = {"enabledAppendPropCRC": False, "rocketflow.profile": profile_of(name)}
    for line in (GOLDEN / name / "broker.properties").read_text().splitlines():
        key, _, value = line.partition("=")
        value = value.strip()
        values[key.strip()] = int(value) if value.isdigit() else {"true": True, "false": False}.get(value, value)
    return StoreConfig.from_mapping(values)

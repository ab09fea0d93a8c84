"""A suite from its file: Great Expectations' JSON, checked without Great Expectations or Spark.

RocketFlow's settings are under `meta.rocketflow`, which GX ignores: of an expectation
`{"action": "fail" | "quarantine" | "warn"}`, of the suite `{"bodySchema": DDL, "bodyFormat": "json" | "csv" | "text",
"bodyOptions": {option of Spark's parser: text}}`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from rocketflow.quality.errors import SuiteRefusedError
from rocketflow.quality.suites.expectation_kinds import columns_of
from rocketflow_store.spi.json_text import MAX_JSON_DEPTH, parse_json

SEVERITIES: Final = ("critical", "warning", "info")
_SUITE_KEYS: Final = frozenset({"name", "expectations", "meta", "notes", "id", "suite_parameters", "data_asset_type"})
_EXPECTATION_KEYS: Final = frozenset(
    {"type", "kwargs", "meta", "severity", "id", "description", "notes", "rendered_content"}
)
_OWN: Final = "rocketflow"


class Action(Enum):
    """The action if an expectation is not met."""

    FAIL = "fail"
    QUARANTINE = "quarantine"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class SuiteExpectation:
    """One expectation; `label` is unique in its suite, `action` is None if its severity decides."""

    type: str
    kwargs: dict[str, Any]
    meta: dict[str, Any]
    severity: str
    label: str
    action: Action | None

    def as_config(self) -> dict[str, Any]:
        """Return the arguments of GX's configuration."""
        return {"type": self.type, "kwargs": dict(self.kwargs), "meta": dict(self.meta), "severity": self.severity}


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite; `version` is a hash of its expectations, independent of the file's layout."""

    name: str
    path: str
    version: str
    expectations: tuple[SuiteExpectation, ...]
    body_schema: str | None = None
    body_format: str | None = None
    body_options: dict[str, str] = field(default_factory=dict)

    def action_of(self, expectation: SuiteExpectation, default: Action) -> Action:
        """Return the expectation's own action, else `default` if it is critical, else WARN."""
        if expectation.action is not None:
            return expectation.action
        return default if expectation.severity == "critical" else Action.WARN


def load_suite(path: str | Path) -> Suite:
    """Load the suite of a file; SuiteRefusedError names everything that is wrong with it."""
    path = Path(path)
    try:
        raw = parse_json(path.read_bytes().decode("utf-8"), allow_nan=True, max_depth=MAX_JSON_DEPTH)
    except OSError as error:
        raise SuiteRefusedError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    except ValueError as error:
        raise SuiteRefusedError(str(path), [f"is not JSON: {error}"]) from error
    return suite_of(raw, str(path))


def suite_of(raw: Any, path: str) -> Suite:
    """Return the suite in parsed JSON; `path` is for messages."""
    if not isinstance(raw, dict):
        raise SuiteRefusedError(path, ["is no JSON object with name and expectations"])
    problems = [f"unknown key {key!r}" for key in sorted(set(raw) - _SUITE_KEYS)]
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        problems.append("has no name")
    if not isinstance(raw.get("expectations"), list):
        raise SuiteRefusedError(path, [*problems, "has no list of expectations"])
    if not raw["expectations"]:
        problems.append("has no expectation")
    found: list[SuiteExpectation] = []
    for number, one in enumerate(raw["expectations"], 1):
        try:
            found.append(_expectation(one, [each.label for each in found]))
        except ValueError as error:
            problems.append(f"expectation {number}: {error}")
    own: dict[str, Any] = {}
    try:
        own = dict(_own(raw))
    except ValueError as error:
        problems.append(str(error))
    options = own.pop("bodyOptions", {})
    for key in sorted(set(own) - {"bodySchema", "bodyFormat"}):
        problems.append(f"meta.rocketflow has an unknown key {key!r}; known: bodySchema, bodyFormat, bodyOptions")
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        problems.append(f"meta.rocketflow: bodyOptions is an object of texts, not {options!r}")
    for key, value in sorted(own.items()):
        if not isinstance(value, str):
            problems.append(f"meta.rocketflow: {key} is text, not {value!r}")
    if problems:
        raise SuiteRefusedError(path, problems)
    own_schema, own_format = own.get("bodySchema"), own.get("bodyFormat")
    return Suite(str(name), path, _version(found), tuple(found), own_schema, own_format, options)


def _expectation(one: Any, labels: list[str]) -> SuiteExpectation:
    if not isinstance(one, dict):
        raise ValueError(f"is no object: {one!r}")
    kind, kwargs, meta = one.get("type"), one.get("kwargs", {}), one.get("meta") or {}
    if not isinstance(kind, str) or not kind:
        raise ValueError("has no type")
    unknown = sorted(set(one) - _EXPECTATION_KEYS)
    if unknown:
        raise ValueError(f"{kind} has unknown keys: {', '.join(unknown)}")
    if not isinstance(kwargs, dict) or not isinstance(meta, dict):
        raise ValueError(f"{kind}: kwargs and meta are objects")
    if any(isinstance(value, dict) and "$PARAMETER" in value for value in kwargs.values()):
        raise ValueError(f"{kind}: parameters ($PARAMETER) have no value in a stream; write the value")
    severity = one.get("severity") or "critical"
    if severity not in SEVERITIES:
        raise ValueError(f"{kind}: severity {severity!r}; known: {', '.join(SEVERITIES)}")
    own = _own(one)
    given = own.get("action")
    known = [action.value for action in Action]
    if set(own) - {"action"} or (given is not None and given not in known):
        raise ValueError(f"{kind}: meta.rocketflow may hold an action ({', '.join(known)}), not {json.dumps(own)}")
    kwargs = {key: value for key, value in kwargs.items() if key != "batch_id"}
    label = _label(kind, kwargs)
    while label in labels:
        stem, _, number = label.partition("#")
        label = f"{stem}#{int(number or 1) + 1}"
    return SuiteExpectation(kind, kwargs, meta, severity, label, None if given is None else Action(given))


def _label(kind: str, kwargs: dict[str, Any]) -> str:
    columns = columns_of(kwargs)
    return f"{kind}({','.join(map(str, columns))})" if columns else kind


def _own(raw: dict[str, Any]) -> dict[str, Any]:
    meta = raw.get("meta")
    own = meta.get(_OWN) if isinstance(meta, dict) else None
    if own is not None and not isinstance(own, dict):
        raise ValueError(f"meta.rocketflow is an object, not {own!r}")
    return own or {}


def _version(expectations: list[SuiteExpectation]) -> str:
    asked = [
        {**one.as_config(), "meta": {}, "action": one.action.value if one.action else None} for one in expectations
    ]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:12]

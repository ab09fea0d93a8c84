"""The derived files that have to be rebuilt, planned from the findings of `store verify --json`. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rocketflow_store.spi.names import LMQ_PREFIX

_UNIT_KINDS: Final = frozenset({"missing-unit", "wrong-unit", "stray-unit"})
_INDEX_KINDS: Final = frozenset({"index-header", "index-entry", "index-chain", "missing-entry"})
_QUEUE_FILE: Final = re.compile(r"(?P<topic>[^/]+)/(?P<queue>\d+)/\d{20}$")
_INDEX_FILE: Final = re.compile(r"/\d{17}$")
_COMMIT_LOG_FILE: Final = re.compile(r"/commitlog/\d{20}$")


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The topics whose queues are damaged (empty with `all_queues`), and if the index is damaged."""

    topics: tuple[str, ...] = ()
    all_queues: bool = False
    index: bool = False

    def __bool__(self) -> bool:
        return bool(self.topics) or self.all_queues or self.index

    def selections(self) -> list[list[str]]:
        """Return the options of the `store rebuild` commands to run, in order."""
        if self.all_queues and self.index:
            return [[]]
        found = []
        if self.all_queues:
            found.append(["--only", "consumequeue"])
        elif self.topics:
            found.append(["--only", "consumequeue", *(part for topic in self.topics for part in ("--topic", topic))])
        if self.index:
            found.append(["--only", "index"])
        return found


def plan_rebuild(result: Mapping[str, Any], most_topics: int = 20) -> RebuildPlan:
    """Return the plan for a result of `verify`.

    If the result does not list all findings, everything is rebuilt; if more than `most_topics` topics are damaged, all
    queues. Damage of the log itself is not in the plan: the log cannot be rebuilt.
    """
    if result.get("unlistedFindings"):
        return RebuildPlan(all_queues=True, index=True)
    topics: set[str] = set()
    all_queues = index = False
    for one in result["findings"]:
        kind, file = one["kind"], one["file"]
        named = _QUEUE_FILE.search(file)
        if kind in _INDEX_KINDS or (kind == "file-size" and _INDEX_FILE.search(file)):
            index = True
        elif kind in _UNIT_KINDS and named is not None and not named["topic"].startswith(LMQ_PREFIX):
            topics.add(named["topic"])
        elif kind in _UNIT_KINDS or (kind == "file-size" and not _COMMIT_LOG_FILE.search(file)):
            all_queues = True
    if all_queues or len(topics) > most_topics:
        return RebuildPlan(all_queues=True, index=index)
    return RebuildPlan(tuple(sorted(topics)), index=index)


def summarise(result: Mapping[str, Any], examples: int = 20) -> dict[str, Any]:
    """Summarise a result of `verify` within a bounded size: counts by kind, and the first `examples` findings."""
    findings: Sequence[Mapping[str, Any]] = result["findings"]
    kinds = Counter(one["kind"] for one in findings)
    return {
        **{name: result[name] for name in ("records", "bytes", "seconds", "lostRecords")},
        "findingCount": len(findings) + int(result.get("unlistedFindings", 0)),
        "findingsByKind": dict(sorted(kinds.items())),
        "findings": [dict(one) for one in findings[:examples]],
    }

"""The pass over rows as Spark columns: one number with a bit for each condition that holds, and the row's properties.

Every counter of the plan is a bit of `__rf_mask0`, `__rf_mask1`, ... (a null condition does not hold, as GX counts it).
A row that breaks an expectation whose action is not `warn`, or whose body could not be read, goes to the quarantine
topic with properties that name the reason and its origin; every other row keeps its own properties.

If no values must be unique, all of this belongs to the stream's own plan, which is built once: a batch adds only the
input of its tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow.quality.check.record_room import LEFT_OUT, VIOLATIONS
from rocketflow.quality.pass_columns import (
    BAD,
    BITS,
    BODY_ERROR,
    CARRIED,
    MASK,
    MESSAGE,
    NAMES,
    OBSERVED,
    OFFSET,
    PASSED,
    PROPERTIES,
    QUEUE,
    SOURCE_COLUMNS,
    VALUES,
    WELL_FORMED,
)
from rocketflow.quality.projection import Projection, columns_by_name, placed, quoted
from rocketflow.quality.suites.expectation_kinds import Kind
from rocketflow.quality.suites.suite import Action
from rocketflow.spark.shared.delivered_properties import without_delays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from rocketflow.quality.suites.suite_plan import Check, SuitePlan

TOPIC_SHIFT: Final = 32
QUEUE_ID: Final = (1 << TOPIC_SHIFT) - 1
WELL_FORMED_BIT: Final = 1 << 61
BAD_BIT: Final = 1 << 60
"""Bits of `QUEUE` in the tasks' input: Spark's Arrow writer has costs for each column after every row."""
_AGAIN: Final = "__rf_again"
_MOST_VALUE: Final = 64
_MOST_EXAMPLE: Final = 256
_MOST_VIOLATIONS: Final = 20
_MOST_SHOWN: Final = 20
_MOST_PROPERTIES: Final = 16_000
_LEFT_OUT: Final = LEFT_OUT.format("PROPERTIES")
_COLUMNS: Final = ("TAGS", "KEYS")
"""Properties that are columns of the row as well."""

REASON: Final = "QUALITY_REASON"
"""Property of a malformed row that says why its body could not be read."""
MALFORMED: Final = "body_matches_schema"
"""The label of the violation of a body that could not be read."""


@dataclass(frozen=True, slots=True)
class Route:
    """The target topics of rows; without `good` a user's function gets the good rows."""

    topics: tuple[str, ...]
    good: str | None
    quarantine: str
    properties: bool
    body_errors: bool = False
    """True if rows have `BODY_ERROR`."""
    constants: dict[str, str] = field(default_factory=dict)
    """Properties of every quarantined row: the suite and its version."""


def condition_columns(plan: SuitePlan) -> list[str]:
    """Return the columns whose values are kept of rows that break an expectation."""
    names = columns_by_name(plan.schema)
    asked = {
        column
        for check in plan.checks
        if check.unexpected is not None and check.kind is not Kind.SQL
        for column in check.columns
    }
    return [name for name in names if name in asked]


class Marking:
    """Adds the masks to parsed rows; with `by_row` the mask of a row does not depend on other rows of the batch."""

    def __init__(self, plan: SuitePlan) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        self._repeats: list[tuple[list[str], Column, str]] = []
        conditions: list[Column] = []
        for number, counter in enumerate(plan.counters):
            held = F.col(WELL_FORMED) if counter.condition is None else F.col(WELL_FORMED) & counter.condition
            if counter.unique_on:
                again = f"{_AGAIN}{number}"
                self._repeats.append(([placed(one, plan.schema) for one in counter.unique_on], held, again))
                held = held & F.col(again).isNotNull()
            conditions.append(held)
        masks = []
        for first in range(0, max(len(conditions), 1), BITS):
            bits = [
                F.when(one, F.lit(1 << at).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
                for at, one in enumerate(conditions[first : first + BITS])
            ]
            total = bits[0] if bits else F.lit(0).cast("bigint")
            for one in bits[1:]:
                total = total.bitwiseOR(one)
            masks.append(total.alias(f"{MASK}{first // BITS}"))
        shown = [F.col(quoted(name)) for name in plan.schema.fieldNames()]
        self._masks = Projection(((*shown, *CARRIED, *masks),))
        self.by_row = not self._repeats

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a batch with their masks; unique values need a job over the complete batch."""
        batch = rows
        for columns, within, name in self._repeats:
            rows = _with_repeated(rows, batch, columns, within, name)
        return self._masks.of(rows)


def _with_repeated(rows: DataFrame, batch: DataFrame, columns: Sequence[str], within: Column, name: str) -> DataFrame:
    """Add a column that is not null if the row's values of `columns` occur more than once `within` the batch.

    They are counted in `batch`, not in `rows`: the plan would double with every column.
    """
    from pyspark.sql import functions as F  # noqa: N812

    keys = [F.col(column).alias(f"{name}_{at}") for at, column in enumerate(columns)]
    repeated = batch.where(within).groupBy(*keys).count().where("count > 1").withColumn(name, F.lit(True)).drop("count")
    same = [F.col(column).eqNullSafe(F.col(f"{name}_{at}")) for at, column in enumerate(columns)]
    on = same[0]
    for one in same[1:]:
        on = on & one
    return rows.join(F.broadcast(repeated), on, "left").drop(*[f"{name}_{at}" for at in range(len(columns))])


def bit(number: int) -> Column:
    """Return a column that is true if the counter's condition holds for the row."""
    from pyspark.sql import functions as F  # noqa: N812

    mask = F.col(f"{MASK}{number // BITS}")
    return mask.bitwiseAND(F.lit(1 << number % BITS).cast("bigint")) != 0


def quarantining(plan: SuitePlan, default: Action) -> list[Check]:
    """Return the row-level expectations that quarantine the rows that break them."""
    return [
        one
        for one in plan.checks
        if one.unexpected is not None and plan.suite.action_of(one.source, default) is not Action.WARN
    ]


def routing(plan: SuitePlan, route: Route, default: Action, gate: Sequence[str] = ()) -> Projection:
    """Return the projection of marked rows to their route: `BAD`, `PROPERTIES`, origin `QUEUE`, `OBSERVED` values.

    With a `gate` (labels) all rows are quarantined; its input is routed already.
    """
    from pyspark.sql import functions as F  # noqa: N812

    broken = quarantining(plan, default)
    bad = ~F.col(WELL_FORMED)
    numbers = {one.unexpected for one in broken if one.unexpected is not None}
    for first in range(0, len(plan.counters), BITS):
        bits = sum(1 << number - first for number in numbers if first <= number < first + BITS)
        if bits:
            bad = bad | (F.col(f"{MASK}{first // BITS}").bitwiseAND(F.lit(bits).cast("bigint")) != 0)
    if gate:
        bad = F.lit(True)
    message = {name: F.col(f"{MESSAGE}.{name}") for name in SOURCE_COLUMNS}
    own = without_delays(F.col(PROPERTIES)) if route.properties else F.col(PROPERTIES)
    properties = _quality_properties(broken, plan.schema, message, own, route, gate)
    values = [_kept(name, plan) for name in condition_columns(plan)]
    observed = F.to_json(F.struct(*values), {"ignoreNullFields": "false"}) if values else F.lit("{}")
    any_bad = bad
    for check in plan.checks:
        if check.unexpected is not None and check not in broken:
            any_bad = any_bad | bit(check.unexpected)
    queue = F.array_position(F.array(*[F.lit(one) for one in route.topics]), message["topic"]) - 1
    if len(route.topics) == 1:
        queue = F.lit(0).cast("bigint")
    columns = (
        *[F.col(quoted(name)) for name in plan.schema.fieldNames()],
        *[F.col(name) for name in (MESSAGE, WELL_FORMED, *mask_names(plan))],
        bad.alias(BAD),
        F.when(bad, properties).otherwise(own).alias(PROPERTIES),
        (queue * (1 << TOPIC_SHIFT) + message["queueId"]).cast("bigint").alias(QUEUE),
        F.when(any_bad, observed).alias(OBSERVED),
    )
    return Projection((columns,))


def mask_names(plan: SuitePlan) -> list[str]:
    """Return the columns that hold the counters' bits."""
    return [f"{MASK}{first // BITS}" for first in range(0, max(len(plan.counters), 1), BITS)]


def for_tasks(plan: SuitePlan) -> Projection:
    """Return the projection of routed rows to the input of the pass's tasks."""
    from pyspark.sql import functions as F  # noqa: N812

    place = F.col(QUEUE)
    for name, bit_set in ((WELL_FORMED, WELL_FORMED_BIT), (BAD, BAD_BIT)):
        place = place + F.when(F.col(name), F.lit(bit_set)).otherwise(F.lit(0)).cast("bigint")
    return Projection(
        (
            (
                *[F.col(f"{MESSAGE}.{name}").alias(name) for name in PASSED],
                F.map_keys(PROPERTIES).alias(NAMES),
                F.map_values(PROPERTIES).alias(VALUES),
                F.col(f"{MESSAGE}.queueOffset").alias(OFFSET),
                place.alias(QUEUE),
                *[F.col(name) for name in (OBSERVED, *mask_names(plan))],
            ),
        )
    )


def _kept(name: str, plan: SuitePlan) -> Column:
    """Return a value as it is kept of a bad row: texts are cut at the length of an example."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType

    column = F.col(placed(name, plan.schema))
    if not isinstance(columns_by_name(plan.schema)[name], StringType):
        return column.alias(name)
    return F.left(column, F.lit(_MOST_EXAMPLE)).alias(name)


def _quality_properties(
    broken: Sequence[Check],
    schema: StructType,
    message: dict[str, Column],
    own: Column,
    route: Route,
    gate: Sequence[str],
) -> Column:
    """Return the properties of a quarantined row: its own, without those of an earlier quarantine, and the reasons."""
    from pyspark.sql import functions as F  # noqa: N812

    entries = [F.when(~F.col(WELL_FORMED), _violation(MALFORMED, {}))]
    entries += [_violation(label, {}) for label in gate]
    entries += [
        F.when(bit(check.unexpected), _violation(check.source.label, _shown(check, schema)))  # type: ignore[arg-type]
        for check in broken
    ]
    violations = F.array_compact(F.array(*entries))  # `fitted` cuts what a record has no room for
    if len(entries) > _MOST_VIOLATIONS:
        violations = F.slice(violations, 1, _MOST_VIOLATIONS)
    pairs: list[tuple[str, Column]] = [
        ("ORIGIN_TOPIC", message["topic"]),
        ("ORIGIN_QUEUE_ID", message["queueId"].cast("string")),
        ("ORIGIN_QUEUE_OFFSET", message["queueOffset"].cast("string")),
        ("ORIGIN_MSG_ID", message["msgId"]),
        *((name, F.lit(value)) for name, value in route.constants.items()),
        (VIOLATIONS, F.to_json(violations)),
    ]
    added = F.create_map(*[part for name, value in pairs for part in (F.lit(name), F.coalesce(value, F.lit("")))])
    if route.body_errors:
        error = F.col(f"{MESSAGE}.{BODY_ERROR}")
        reason = F.create_map(F.lit(REASON), F.concat(F.lit("cannot be decoded: "), error))
        added = F.when(error.isNotNull(), F.map_concat(added, reason)).otherwise(added)
    if not route.properties:
        return added
    none = F.create_map().cast("map<string,string>")
    dropped = [*(one for one, _ in pairs), *([REASON] if route.body_errors else []), *_COLUMNS]

    def without(names: list[str]) -> Column:
        return F.map_filter(F.coalesce(own, none), lambda name, _: ~name.isin(names))

    kept = without([*dropped, _LEFT_OUT])
    if gate:  # for a row that was bad already, it is of this pass
        kept = F.when(F.col(BAD), without(dropped)).otherwise(kept)
    fits = F.octet_length(F.to_json(kept)) <= _MOST_PROPERTIES
    left_out = F.create_map(F.lit(_LEFT_OUT), F.lit("true"))
    return F.map_concat(F.when(fits, kept).otherwise(left_out), added)


def is_undecoded(properties: Sequence[tuple[str, str]]) -> bool:
    """Return True if the properties of a row to write end with the reason why its body cannot be decoded."""
    return properties[-1][0] == REASON


def _violation(label: str, observed: dict[str, Column]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    pairs = [
        part
        for name, value in observed.items()
        for part in (F.lit(name), F.left(value.cast("string"), F.lit(_MOST_VALUE)))
    ]
    shown = F.create_map(*pairs) if pairs else F.lit(None)
    return F.struct(F.lit(label).alias("expectation"), shown.cast("map<string,string>").alias("observed"))


def _shown(check: Check, schema: StructType) -> dict[str, Any]:
    """Return the values to show of a row that breaks a check; for a condition in SQL those of its columns."""
    from pyspark.sql import functions as F  # noqa: N812

    return {name: F.col(placed(name, schema)) for name in check.columns[:_MOST_SHOWN]}

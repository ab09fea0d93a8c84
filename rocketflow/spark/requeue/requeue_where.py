"""The rows that a requeue moves: the WHERE of a run, evaluated by Spark, one window of offsets at a time.

A repeated run must choose the same rows each time. So its WHERE must parse, name columns of the source only, and not
depend on random values or on the time of day.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from rocketflow.errors import UsageError
from rocketflow.spark.source.columns import COLUMN_TYPES, PROPERTIES_COLUMN
from rocketflow_store.spi.requeue import Choice, NoOriginError, origin_topic_properties, windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketflow_store.spi.requeue import Queues, RequeueRequest

_OF_THE_CLOCK: Final = frozenset({"CurrentTimestamp", "CurrentDate", "Now", "LocalTimestamp", "CurrentTime"})


class WhereError(UsageError):
    """The condition of `--where` does not parse, names no column, or is not repeatable."""


class Chooser:
    """Evaluates one request's WHERE; raises WhereError, with the parser's text, if it cannot be used."""

    def __init__(self, spark: SparkSession, store: str, request: RequeueRequest) -> None:
        self._spark, self._store, self._request = spark, store, request
        needed = {"queueId", "queueOffset", "storeSize"} | self._names_in_where()
        if request.to_topic is None:
            needed.add(PROPERTIES_COLUMN)
        self._schema = StructType([StructField(name, kind) for name, kind in COLUMN_TYPES.items() if name in needed])

    def choose(self, window: Queues) -> Choice:
        """Return the rows of a window and their targets; raise NoOriginError if a row has no target."""
        rows = self._rows(window)
        columns = [sf.col("queueId"), sf.col("queueOffset"), sf.col("storeSize"), self._target().alias("target")]
        self._describe("choose rows")
        try:
            table = rows.select(*columns).toArrow().combine_chunks()
        finally:
            self._describe(None)
        ids, offsets, sizes = (np.asarray(table.column(at)) for at in range(3))
        order = np.lexsort((offsets, ids))
        targets = table.column(3).combine_chunks() if hasattr(table.column(3), "combine_chunks") else table.column(3)
        if targets.null_count:
            row = order[np.flatnonzero(~np.asarray(targets.is_valid())[order])[0]]
            raise NoOriginError(
                f"topic {self._request.from_topic}, queue {ids[row]}, queue offset {offsets[row]}: no property "
                f"{' or '.join(origin_topic_properties(self._request.from_topic))} names the topic it came from; "
                f"give --to-topic (of {len(targets)} rows here, {targets.null_count} have none)"
            )
        coded = targets.dictionary_encode()
        topic_of = np.asarray(coded.indices).astype(np.int32)
        return Choice(
            ids[order].astype(np.int32),
            offsets[order].astype(np.int64),
            sizes[order].astype(np.int64),
            tuple(coded.dictionary.to_pylist()),
            topic_of[order],
        )

    def rows_without_origin(self, left: Queues) -> int:
        """Return the number of rows of `left` that would have no target."""
        if self._request.to_topic is not None:
            return 0
        self._describe("look for rows without an origin")
        try:
            return sum(self._rows(window).where(self._target().isNull()).count() for window in windows(left))
        finally:
            self._describe(None)

    def _rows(self, window: Queues) -> DataFrame:
        topic = self._request.from_topic
        begins = {str(queue_id): begin for queue_id, (begin, _) in window.items()}
        ends = {str(queue_id): end for queue_id, (_, end) in window.items()}
        options = {
            "path": self._store,
            "assign": json.dumps({topic: sorted(window)}),
            "startingOffsets": json.dumps({topic: begins}),
            "endingOffsets": json.dumps({topic: ends}),
            "pushDownPredicate": "true",
            "includeProperties": str(PROPERTIES_COLUMN in self._schema.names).lower(),
            "onBadBody": "raw",  # records are copied as they are
        }
        rows = self._spark.read.format("rocketflow").options(**options).schema(self._schema).load()
        return rows if self._request.where is None else rows.where(self._request.where)

    def _target(self) -> Any:
        if self._request.to_topic is not None:
            return sf.lit(self._request.to_topic)
        properties = sf.col(PROPERTIES_COLUMN)
        return sf.coalesce(*(properties[name] for name in origin_topic_properties(self._request.from_topic)))

    def _describe(self, what: str | None) -> None:
        text = None if what is None else f"rocketflow requeue {self._request.run_id}: {what}"
        self._spark.sparkContext.setJobDescription(text)  # type: ignore[arg-type]

    def _names_in_where(self) -> set[str]:
        """Return the columns that the WHERE names; raise WhereError if it cannot be used."""
        if self._request.where is None:
            return set()
        everything = StructType([StructField(name, kind) for name, kind in COLUMN_TYPES.items()])
        empty: DataFrame = self._spark.createDataFrame([], everything)
        try:
            empty.where(self._request.where)
            # Spark's own where() takes words after an expression for an alias
            plan = empty.where(f"({self._request.where}\n)")._jdf.queryExecution().analyzed()
        except (ParseException, AnalysisException) as error:
            raise WhereError(f"--where {self._request.where!r}: {_first_words(error)}") from error
        if not plan.deterministic():
            raise WhereError(
                f"--where {self._request.where!r}: depends on random values; a repeated run would move other rows"
            )
        clocks = sorted(_of_the_clock(plan.condition()))
        if clocks:
            raise WhereError(
                f"--where {self._request.where!r}: depends on the time of day ({', '.join(clocks)}); "
                "a repeated run would move other rows: give the time itself, e.g. timestamp'2026-11-21 10:00:00Z'"
            )
        references = plan.condition().references().toSeq()
        return {references.apply(at).name() for at in range(references.size())}


def _of_the_clock(expression: Any) -> set[str]:
    name = str(expression.getClass().getSimpleName())
    children = expression.children()
    found = {name} & _OF_THE_CLOCK
    return found.union(*(_of_the_clock(children.apply(at)) for at in range(children.size())))


def _first_words(error: Exception) -> str:
    """Return Spark's message without its plan dump."""
    text = str(error).split(";\n")[0]
    return " ".join(line.strip() for line in text.split("== SQL")[0].splitlines() if line.strip())

"""Directories that Apache RocketMQ wrote, read through the Spark source: every field as RocketMQ itself reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden import GOLDEN
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STORES = [
    ("basic-53", "store"),
    ("basic-49", "store"),
    ("features-53", "store"),
    ("basic-55", "store"),
    ("features-55", "store"),
    ("crash-55-kill9", "rebuilt"),
    ("crash-53-kill9", "rebuilt"),
    ("crash-53-torn", "rebuilt"),
    ("lost-derived-53", "rebuilt"),
    ("propcrc-53", "store"),
    ("expired-53", "store"),
]
PLAIN = [
    "topic",
    "queueId",
    "msgId",
    "uniqKey",
    "tags",
    "keys",
    "flag",
    "sysFlag",
    "bornHost",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
    "bodyCRC",
    "storeSize",
    "properties",
]


def actual_messages(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    table = (
        spark.read.format("rocketflow")
        .option("subscribePattern", ".*")
        .option("includeSystemTopics", "true")
        .option("includeProperties", "true")
        .load(str(path))
        .toArrow()
    )
    rows = []
    for row in table.to_pylist():
        body = row.pop("body")
        row["bodyLength"], row["bodySha256"] = len(body), hashlib.sha256(body).hexdigest()
        row["bornTimestamp"] = round(row["bornTimestamp"].timestamp() * 1000)
        row["storeTimestamp"] = round(row["storeTimestamp"].timestamp() * 1000)
        row["properties"] = dict(row["properties"])
        rows.append(row)
    return rows


@pytest.mark.parametrize(("name", "archive"), STORES if LEVEL != "sample" else STORES[2::4])
def test_spark_returns_every_field_that_rocketmq_returns(
    spark: SparkSession, golden_store: Callable[..., Path], name: str, archive: str
) -> None:
    lines = (GOLDEN / name / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    expected = {(one["topic"], one["queueId"], one["queueOffset"]): one for one in map(json.loads, lines)}
    actual = {
        (row["topic"], row["queueId"], row["queueOffset"]): row
        for row in actual_messages(spark, golden_store(name, archive))
    }
    assert actual.keys() == expected.keys()
    for place, one in expected.items():
        row = actual[place]
        assert row["physicalOffset"] == one["physicalOffset"], place
        assert {field: row[field] for field in PLAIN} == {field: one.get(field) for field in PLAIN}, place
        for field in ("bornTimestamp", "storeTimestamp", "bodyLength", "bodySha256"):
            assert row[field] == one[field], (place, field)

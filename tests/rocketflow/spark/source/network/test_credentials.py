"""Queries at a broker with accounts: who may read and write, and where a secret must not be found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.ports import free_port
from tests.support.servers import running, wait_for_a_broker
from tests.support.signed import ADMIN, PLAIN_RULES, READER, plain_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RULES = PLAIN_RULES.replace("groupPerms: [readers=SUB]", "groupPerms: [readers=SUB, TOOLS_CONSUMER=SUB]")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a broker with accounts; yield the address of its NameServer."""
    home = tmp_path_factory.mktemp("accounts")
    port = free_port()
    with (
        running("namesrv", home / "names", port=port) as server,
        plain_broker(home / "broker", f"namesrvAddr={server.address}", rules=RULES),
    ):
        wait_for_a_broker(server.address)
        yield server.address


def files_with(text: str, directory: Path) -> list[str]:
    """Return the files below a directory that have a text."""
    return [str(one) for one in directory.rglob("*") if one.is_file() and text.encode() in one.read_bytes()]


def test_secrets_are_in_no_plan_log_or_checkpoint(
    spark: SparkSession, names: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tools.yml"
    file.write_text(f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n")
    rows = spark.range(33).selectExpr("CAST(id AS STRING) body", "IF(id < 30, 'orders', 'closed') topic")
    sink = {"namesrvAddr": names, "txnId": "load"}
    rows.write.format("rocketflow").options(**sink, credentialsFile=str(file)).mode("append").save()
    reader = {
        "namesrvAddr": names,
        "subscribe": "orders",
        "accessKey": READER.access_key,
        "secretKey": READER.secret_key,
    }
    frame = spark.read.format("rocketflow").options(**reader).load()
    assert frame.count() == 30
    frame.explain("extended")
    stream = spark.readStream.format("rocketflow").options(**reader, startingOffsets="earliest").load()
    out = tmp_path / "stream"
    writer = stream.select("body").writeStream.format("json").option("checkpointLocation", str(out / "checkpoint"))
    query = writer.option("path", str(out / "rows")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    query.explain(True)
    failing = spark.readStream.format("rocketflow").options(**{**reader, "subscribe": "closed"}).load()
    with pytest.raises(Exception, match="GET_MAX_OFFSET was answered with 16") as refused:
        failing.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(120)
    printed = "".join(capfd.readouterr())
    texts = [printed, str(refused.value), str(query.lastProgress), str(query.recentProgress)]
    for secret in (READER.secret_key, ADMIN.secret_key):
        assert [text for text in texts if secret in text] == []
        assert files_with(secret, out) == []
    assert "BatchScan rocketflow" in printed


def test_accounts_without_permission_are_refused_by_name(spark: SparkSession, names: str) -> None:
    with pytest.raises(Exception, match=r"(?i)accessKey|account|permission|orders"):
        spark.read.format("rocketflow").options(namesrvAddr=names, subscribe="orders").load().count()
    write = spark.range(3).selectExpr("CAST(id AS STRING) body").write.format("rocketflow").mode("append")
    keys = {"accessKey": READER.access_key, "secretKey": READER.secret_key}
    with pytest.raises(Exception, match="need an administrator's account"):
        write.options(namesrvAddr=names, topic="orders", **keys).save()

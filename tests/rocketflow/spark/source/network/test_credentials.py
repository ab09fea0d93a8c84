"""Queries at a broker with accounts and TLS: who may read and write, and where a secret must not be found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.servers import running, wait_for_a_broker
from tests.support.signed import ADMIN, PLAIN_RULES, READER, plain_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RULES = PLAIN_RULES.replace("groupPerms: [readers=SUB]", "groupPerms: [readers=SUB, TOOLS_CONSUMER=SUB]")


PASSWORD: Final = "password-of-the-key"


@dataclass(frozen=True)
class Place:
    """The address of a NameServer that takes connections with TLS and without, and the files of a client."""

    names: str
    trusted: Path
    cert: Path
    key: Path

    @property
    def options(self) -> dict[str, str]:
        """The options of a query."""
        return {
            "namesrvAddr": self.names,
            "tls.client.trustCertPath": str(self.trusted),
            "tls.client.certPath": str(self.cert),
            "tls.client.keyPath": str(self.key),
            "tls.client.keyPassword": PASSWORD,
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run a NameServer, and a broker with accounts that demands TLS and a client's certificate."""
    home = tmp_path_factory.mktemp("accounts")
    ca = Authority(home)
    cert, key = ca.issue("server")
    own_cert, own_key = ca.issue("query", password=PASSWORD)
    server = [f"tls.server.certPath={cert}", f"tls.server.keyPath={key}", f"tls.server.trustCertPath={ca.path}"]
    demands = (
        "tls.server.mode=enforcing",
        "tls.server.need.client.auth=require",
        f"tls.client.trustCertPath={ca.path}",
    )
    options = [part for one in server for part in ("--set", one)]
    with running("namesrv", home / "names", *options, port=free_port()) as names:
        own = f"namesrvAddr={names.address}"
        with plain_broker(home / "broker", own, *server, *demands, rules=RULES):
            wait_for_a_broker(names.address)
            yield Place(names.address, ca.path, own_cert, own_key)


def files_with(text: str, directory: Path) -> list[str]:
    """Return the files below a directory that have a text."""
    return [str(one) for one in directory.rglob("*") if one.is_file() and text.encode() in one.read_bytes()]


def test_secrets_are_in_no_plan_log_or_checkpoint(
    spark: SparkSession, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tools.yml"
    file.write_text(f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n")
    rows = spark.range(33).selectExpr("CAST(id AS STRING) body", "IF(id < 30, 'orders', 'closed') topic")
    files = tmp_path / "tls.properties"
    files.write_text("".join(f"{key}={value}\n" for key, value in place.options.items() if key.startswith("tls.")))
    sink = {"namesrvAddr": place.names, "txnId": "load", "credentialsFile": str(file), "tls.config.file": str(files)}
    rows.write.format("rocketflow").options(**sink).mode("append").save()
    reader = {
        **place.options,
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
    for secret in (READER.secret_key, ADMIN.secret_key, PASSWORD):
        assert [text for text in texts if secret in text] == []
        assert files_with(secret, out) == []
    assert "BatchScan rocketflow" in printed


def test_accounts_without_permission_are_refused_by_name(spark: SparkSession, place: Place) -> None:
    with pytest.raises(Exception, match=r"(?i)accessKey|account|permission|orders"):
        spark.read.format("rocketflow").options(**place.options, subscribe="orders").load().count()
    write = spark.range(3).selectExpr("CAST(id AS STRING) body").write.format("rocketflow").mode("append")
    keys = {"accessKey": READER.access_key, "secretKey": READER.secret_key}
    with pytest.raises(Exception, match="need an administrator's account"):
        write.options(**place.options, topic="orders", **keys).save()


def test_a_wrong_secret_is_named_by_source_and_sink_at_a_name_server_with_accounts(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(PLAIN_RULES)
    with running("namesrv", tmp_path, *("--set", "aclEnable=true", "--set", f"rocketmqHome={tmp_path}")) as names:
        keys = {"namesrvAddr": names.address, "accessKey": READER.access_key, "secretKey": "another-secret"}
        why = f"Check signature failed for accessKey={READER.access_key}"
        with pytest.raises(Exception, match=why):
            spark.read.format("rocketflow").options(**keys, subscribe="orders").load().count()
        write = spark.range(3).selectExpr("CAST(id AS STRING) body").write.format("rocketflow").mode("append")
        with pytest.raises(Exception, match=why):
            write.options(**keys, topic="orders").save()


def test_a_query_needs_the_certificates_that_the_broker_demands(spark: SparkSession, place: Place) -> None:
    keys = {"accessKey": READER.access_key, "secretKey": READER.secret_key}
    waits = {"namesrvAddr": place.names, "subscribe": "orders", "networkTimeout": "100ms", **keys}
    with pytest.raises(Exception, match="does not answer"):
        spark.read.format("rocketflow").options(**waits).load().count()
    trusting = {"tls.client.trustCertPath": str(place.trusted)}
    with pytest.raises(Exception, match="does not answer"):
        spark.read.format("rocketflow").options(**waits, **trusting).load().count()
    wrong = {**place.options, "tls.client.keyPassword": "another"}
    with pytest.raises(Exception, match=r"option tls\.client\.certPath=.* set tls\.client\.keyPassword"):
        spark.read.format("rocketflow").options(**{**waits, **wrong}).load().count()

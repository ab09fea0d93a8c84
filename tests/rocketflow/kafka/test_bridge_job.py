"""jobs/kafka_bridge.py with kafka-python, and store to Kafka also through Spark's connector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path

import pytest

from rocketflow.kafka.bridge_job import main
from rocketflow.process.job_entry import run_job
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, stored
from tests.support.kafka_broker import connector_jars
from tests.support.maven import JarsNotFetchedError
from tests.support.output_fields import check_fields
from tests.support.trials import COMMAND_LINE, FULL, ROOT, environment

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]
SENT = [Sent(b"k%d" % (number % 3), b"%d" % number, (("h", b"1"),)) for number in range(40)]


def test_job_copies_into_the_store_and_back(
    topics: Topics, store: str, name: Name, capsys: pytest.CaptureFixture[str]
) -> None:
    source, back = name("job.t"), name("back")
    topics.create(source, back)
    topics.send(source, SENT)
    local = source.replace(".", "_")
    common = ["--bootstrap", topics.address, "--store", store, "--until-caught-up", "--map"]
    into = ["--direction", "kafka-to-store", *common, f"{source}={local}", "--topics", source]
    assert run_path(str(ROOT / "jobs" / "kafka_bridge.py"))["main"] is main
    for arguments in (into, ["--direction", "store-to-kafka", *common, f"{back}={local}", "--topics", local]):
        assert main(arguments) == 0
        line = json.loads(capsys.readouterr().out.splitlines()[-1])
        check_fields("submit kafka_bridge", line)
        assert (line["job"], line["rows"], line["guarantee"]) == ("kafka_bridge", 40, "exactly-once")
    assert topics.read(back) == topics.read(source)


def test_invalid_arguments_are_usage_errors(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--bootstrap", "x:1", "--store", store]
    for more in (["--topics", "a"], ["--direction", "sideways", "--topics", "a"]):
        with pytest.raises(SystemExit) as ended:
            main([*common, *more])
        assert ended.value.code == 2
    for more in ([], ["--topics", "a", "--engine", "spark"]):
        assert run_job(partial(main, [*common, "--direction", "kafka-to-store", *more])) == 2
    spark = ["--direction", "store-to-kafka", "--topics", "a", "--engine", "spark", "--checkpoint", "cp"]
    assert run_job(partial(main, [*common, *spark, "--connector-option", "kafka.linger.ms"])) == 2
    assert "--connector-option number 1: give it as key=value" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="starts a Spark of its own (RF_FULL=1)")
def test_spark_connector_copies_store_to_kafka(topics: Topics, store: str, name: Name, tmp_path: Path) -> None:
    try:
        jars = ",".join(map(str, connector_jars()))
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    source, back = name("t"), name("back")
    topics.create(source, back)
    topics.send(source, SENT)
    bridge("kafka-to-store", topics.address, store, "--topics", source)
    job = [sys.executable, "-c", COMMAND_LINE, "submit", "kafka_bridge", "--direction", "store-to-kafka"]
    job += ["--bootstrap", topics.address, "--store", store, "--topics", source, "--map", f"{back}={source}"]
    job += ["--until-caught-up", "--checkpoint", str(tmp_path / "checkpoint"), "--", "--jars", jars]
    for rows in (40, 0):
        done = subprocess.run(
            job, capture_output=True, text=True, env=dict(os.environ) | environment(), timeout=280, check=False
        )
        assert done.returncode == 0, done.stderr
        line = json.loads(done.stdout.splitlines()[-1])
        check_fields("submit kafka_bridge --engine spark", line)
        assert (line["engine"], line["guarantee"], line["rows"]) == ("spark", "at-least-once", rows)
    read = topics.read(back)
    assert {queue: [one.value for one in rows] for queue, rows in read.items()} == {
        queue: [body for body, _ in rows] for queue, rows in stored(store, source).items()
    }
    assert [dict(one.headers)["rocketmq.origin"] for one in read[1]] == [
        f"{source}:1:{number}".encode() for number in range(20)
    ]
    assert {(one.key, dict(one.headers)["h"]) for one in read[0]} == {(b"k0", b"1"), (b"k1", b"1"), (b"k2", b"1")}

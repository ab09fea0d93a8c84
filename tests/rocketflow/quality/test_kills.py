"""A job that is killed at random and restarted: the same rows in the same places as without kills."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rocketflow.demo.flights import as_messages, load_flights
from rocketflow.quality.jobs.quality_job import QualityQuery, parse_arguments, preflight
from rocketflow.quality.results.results import read_results
from rocketflow_store import MessageStore
from rocketflow_store.fsck.verify import verify_store
from tests.rocketflow.quality.topics import origins, rows_of
from tests.support.flight_rules import SUITE, bad_flights
from tests.support.trials import LEVEL, environment, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = len(seeds(4, 50))
"""Four with RF_FAULTS=1, 50 in a row with RF_FULL=1; each takes a JVM's start."""
BATCHES = 12 * KILLS
"""A batch takes a fifth of a second: between two kills several may be done."""
ROWS = 100


def _killed(command: list[str], made: random.Random) -> str | None:
    """Start the job and kill it some time after its plan, or after some batches; return its JSON line if it ended."""
    child = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    batches, delay = made.choice([0, 0, 1, 2]), made.random() * 2
    timer = None
    try:
        assert child.stderr is not None
        assert child.stdout is not None
        said = []
        for line in child.stderr:
            said.append(line)
            if line.startswith("planned") or (line.startswith("batch") and "rows in all" in line):
                batches -= line.startswith("batch")
                if batches <= 0 and timer is None:
                    timer = threading.Timer(delay, _kill, [child])
                    timer.start()
        out = child.stdout.read()
        code = child.wait()
        assert code <= 0, "".join(said)[-3000:]  # done, or ended by a signal
        return out if code == 0 else None
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()
        _kill(child)
        child.wait()
        child.stderr.close()  # type: ignore[union-attr]
        child.stdout.close()  # type: ignore[union-attr]


def _kill(child: subprocess.Popen[str]) -> None:
    """Kill the job with its JVM and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


@pytest.mark.spark
@pytest.mark.skipif(LEVEL == "sample", reason="RF_FAULTS=1 or RF_FULL=1: test_stream replays the state after a kill")
@pytest.mark.timeout(7200)
def test_killed_and_restarted_job_writes_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    seed = seeds(4, 50)[0]
    made = random.Random(seed)
    print(f"seed {seed}")
    count = BATCHES * ROWS
    flights = load_flights().slice(40_000 + made.randrange(200_000), count)
    rows = as_messages(flights)
    store = tmp_path / "store"
    with MessageStore.open(store) as opened:
        opened.create_topic("flights", 2)
        opened.append_batch(
            rows.append_column("queueId", pa.array([at % 2 for at in range(count)], pa.int32())), topic="flights"
        )
    arguments = [
        *("--source", str(store), "--subscribe", "flights", "--suite", str(SUITE), "--good-topic", "good"),
        *(
            "--quarantine-topic",
            "bad",
            "--checkpoint",
            str(tmp_path / "cp"),
            "--option",
            f"maxOffsetsPerTrigger={ROWS}",
        ),
    ]
    kills = 0
    while kills < KILLS:
        if _killed([sys.executable, "-m", "tests.rocketflow.quality.killed_job", *arguments], made) is not None:
            break
        kills += 1
        assert verify_store(store).findings == [], f"seed {seed}, kill {kills}"
    job = parse_arguments(arguments)
    QualityQuery(spark, job, *preflight(job)).run()
    described = f"seed {seed}, {kills} kills"
    frame = flights.to_pandas()
    bad = bad_flights(frame)
    expected = sorted(("flights", at % 2, at // 2) for at in frame.index[bad].tolist())
    assert len(expected) > 0, described
    assert origins(store, "bad") == expected, f"{described}: each bad row once, in its queue's order"
    good: list[Any] = [row["body"] for row in rows_of(store, "good", ["body"])]
    bodies = rows["body"].to_pylist()
    kept = [at for at in range(count) if not bad[at]]
    assert good == [bodies[at] for queue in (0, 1) for at in kept if at % 2 == queue], (
        f"{described}: each good row once"
    )
    ends = [0, 0]
    for one in read_results(str(store)):
        for part in one.fields["ranges"]:
            assert part["from"] == ends[part["queueId"]], f"{described}: every range has one result"
            ends[part["queueId"]] = part["to"]
    assert ends == [count // 2, count // 2], described
    assert kills == KILLS, f"{described}: the job ended before it could be killed {KILLS} times"

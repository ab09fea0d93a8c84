"""Draw RocketFlow's figures beside its peers': `python -m tests.bench.chart [RESULTS.jsonl]` writes performance.svg.

Without an argument the figures of `last.jsonl` are drawn, which are those of the README's table. After `make bench`,
pass its file under `results/`, or copy the lines of `CASES` from it to `last.jsonl`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

HERE: Final = Path(__file__).parent
LAST: Final = HERE / "last.jsonl"
PICTURE: Final = HERE / "performance.svg"
CASES: Final = (
    (
        "append a batch, 200 B",
        r"append_batch 200 B ASYNC_FLUSH, 2 index keys",
        r"append_batch 200 B .*Apache.* 1 threads",
    ),
    ("append a batch, 1 KiB", r"append_batch 1024 B .*2 index keys", r"append_batch 1024 B .*Apache.* 4 threads"),
    (
        "rebuild queues and index, 200 B",
        r"rebuild \S+ GB of 200 B messages, 2 cores",
        r"rebuild \S+ GB of 200 B .*Apache \S+",
    ),
    (
        "rebuild queues and index, 1 KiB",
        r"rebuild \S+ GB of 1024 B messages, 2 cores",
        r"rebuild \S+ GB of 1024 B .*Apache \S+",
    ),
    ("Spark source, 200 B", r"source 200 B .*seven columns", r"source 200 B .*Kafka, tuned"),
    ("Spark source, 1 KiB", r"source 1024 B .*seven columns", r"source 1024 B .*Kafka, tuned"),
    ("Spark sink, 200 B, synced", r"sink 200 B, exactly once, synced, directIO", r"sink 200 B, Kafka.*"),
    ("Spark sink, 1 KiB, synced", r"sink 1024 B, exactly once, synced", r"sink 1024 B, Kafka.*"),
    ("copy from Kafka, 200 B", r"bridge, Kafka -> store, 200 B", r"kafka-python's consumer alone, 200 B"),
    ("put one by one, 200 B", r"put_message 200 B ASYNC_FLUSH, 1 threads", r"put 200 B one by one, Apache.*"),
)
"""Label, and patterns of the names of RocketFlow's case and its peer's."""
_HEAD: Final = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}" role="img" aria-labelledby="title">
  <title id="title">Rates of RocketFlow and its peers, each row to its own scale</title>
  <style>
    text {{ font: 13px system-ui, sans-serif; fill: #1f2328 }}
    .label {{ text-anchor: end }}
    .flow {{ fill: #0969da }}
    .peer {{ fill: #afb8c1 }}
    @media (prefers-color-scheme: dark) {{
      text {{ fill: #e6edf3 }}
      .flow {{ fill: #4493f8 }}
      .peer {{ fill: #656c76 }}
    }}
  </style>
"""
_ROW: Final = 44
_LEFT: Final = 240
_WIDTH: Final = 400


def figures(path: Path) -> dict[str, tuple[float, str]]:
    """Return (median, unit) by the name of the case."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {one["case"]: (one["median"], one["unit"]) for one in lines}


def drawn(path: Path) -> str:
    """Return the picture of the cases of `path` that have a peer; a case without one is omitted."""
    known = figures(path)

    def named(pattern: str) -> str | None:
        return next((case for case in known if re.fullmatch(pattern, case)), None)

    pairs = [(label, named(case), named(peer)) for label, case, peer in CASES]
    rows = [(label, case, peer) for label, case, peer in pairs if case is not None and peer is not None]
    lines = [_HEAD.format(height=_ROW * len(rows) + 16)]
    for number, (label, case, peer) in enumerate(rows):
        top = number * _ROW + 8
        lines.append(f'  <text x="{_LEFT - 10}" y="{top + 21}" class="label">{escape(label)}</text>\n')
        most = max(known[case][0], known[peer][0])
        for kind, name, shift in (("flow", case, 0), ("peer", peer, 17)):
            median, unit = known[name]
            width = round(_WIDTH * median / most)
            who = "RocketFlow" if kind == "flow" else "Apache RocketMQ" if "Apache" in name else "Kafka"
            lines.append(f'  <rect x="{_LEFT}" y="{top + shift}" width="{width}" height="15" class="{kind}"/>\n')
            text = escape(f"{who} {shown(median, unit)}")
            lines.append(f'  <text x="{_LEFT + width + 6}" y="{top + shift + 12}">{text}</text>\n')
    return "".join([*lines, "</svg>\n"])


def shown(median: float, unit: str) -> str:
    """Return a rate as the README's table has it."""
    if unit == "messages/s":
        median, unit = median / 1000, "k msg/s"
    return f"{median:,.2f} {unit}" if median < 10 else f"{median:,.0f} {unit}"


if __name__ == "__main__":
    PICTURE.write_text(drawn(Path(sys.argv[1]) if sys.argv[1:] else LAST), "utf-8")
    print(PICTURE)

"""python -m tests.bench [GROUP ...]: measure figures of this machine; print a table and write JSON lines (results/).

A group is a module `bench_GROUP.py` with `run(scale)`; without an argument all groups run. Every case runs several
times in turn with the others of its group. The median counts, and ratios are taken within one run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
from pathlib import Path

from tests.bench.figures import Figure

HERE = Path(__file__).parent
GROUPS = sorted(one.stem.removeprefix("bench_") for one in HERE.glob("bench_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], help=f"{', '.join(GROUPS)} (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data; the README's figures have 1.0")
    given = parser.parse_args()
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    out = results / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    figures: list[Figure] = []
    for name in given.groups or GROUPS:
        for figure in importlib.import_module(f"tests.bench.bench_{name}").run(given.scale):
            figures.append(figure)
            print(figure.line(), flush=True)
            with out.open("a") as opened:
                opened.write(json.dumps({"machine": platform.node(), **figure.as_dict()}) + "\n")
    print(f"{len(figures)} figures in {out}")


if __name__ == "__main__":
    main()

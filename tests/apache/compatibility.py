"""Write the table of this folder's README from test results: `python -m tests.apache.compatibility RESULTS.xml ...`.

The results are those that pytest writes with `--junitxml`. A test counts for each version that its parameters name.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Final

README: Final = Path(__file__).with_name("README.md")
VERSIONS: Final = {"4.9.7": r"4\.9\.7|-49\b", "5.3.3": r"5\.3\.3|-53\b", "5.5.0": r"5\.5\.0|-55\b"}
"""Versions of RocketMQ, and what names them in the parameters of a test: the version, or a golden store."""
CLAIMS: Final = {
    "RocketFlow reads its stores: messages, offsets by time, index": ["tests.store.reading.test_golden_stores"],
    "Spark reads every field of every message": ["tests.rocketflow.spark.source.test_golden_read"],
    "its store opens RocketFlow's, reads and appends": ["tests.apache.test_apache_opens_rocketflow_stores"],
    "the same after retention by RocketFlow": ["tests.apache.test_after_retention"],
    "the same with several CommitLog directories": ["tests.apache.test_several_directories"],
    "the same with queues and index rebuilt by RocketFlow": ["tests.apache.test_rebuilt"],
    "the same with messages requeued by RocketFlow": ["tests.apache.test_requeued"],
    "both write and rebuild BatchCQ queues": ["tests.apache.test_batch_queues"],
    "a broker boots on RocketFlow's store and serves it": [
        "tests.apache.test_broker_boots",
        "tests.apache.test_lost_messages",
    ],
    "broker and RocketFlow deliver delayed messages in turn": ["tests.apache.test_delayed"],
    "broker and RocketFlow deliver timer messages in turn": ["tests.apache.test_timer_with_a_broker"],
    "two versions and RocketFlow write one store in turn": ["tests.apache.test_upgrade"],
}
"""What a row claims of a RocketMQ version, and the modules whose tests show it."""
_TABLE: Final = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.S)


def outcomes(results: Iterable[Path]) -> dict[tuple[str, str], str]:
    """Return the outcome (passed, failed or skipped) of each test by (module, name); that of the last file counts."""
    found = {}
    for path in results:
        for case in ET.parse(path).getroot().iter("testcase"):
            kinds = {child.tag for child in case}
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            found[case.get("classname", ""), case.get("name", "")] = outcome
    return found


def table(results: Iterable[Path]) -> str:
    """Return the table in Markdown: the number of passed tests, and of failed ones, by claim and version."""
    found = outcomes(results)
    lines = [f"| what | {' | '.join(VERSIONS)} |", f"|---|{'---:|' * len(VERSIONS)}"]
    for claim, modules in CLAIMS.items():
        cells = []
        for pattern in VERSIONS.values():
            of = [
                outcome
                for (module, name), outcome in found.items()
                if module in modules and re.search(pattern, name.partition("[")[2])
            ]
            passed, failed = of.count("passed"), of.count("failed")
            cells.append(f"**{failed} failed** of {passed + failed}" if failed else str(passed or ""))
        lines.append(f"| {claim} | {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Replace the table of the README."""
    text = table(map(Path, sys.argv[1:]))
    README.write_text(_TABLE.sub(lambda _: text, README.read_text("utf-8")), "utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()

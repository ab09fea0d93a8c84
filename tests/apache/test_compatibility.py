"""The table of compatibility: its rows are those of the code, counted from results of tests, and none failed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tests.apache.compatibility import CLAIMS, README, table

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.apache.test_rebuilt" name="test_a[5.5.0]"/>
<testcase classname="tests.apache.test_rebuilt" name="test_a[4.9.7]"><failure/></testcase>
<testcase classname="tests.apache.test_rebuilt" name="test_b[4.9.7]"/>
<testcase classname="tests.apache.test_rebuilt" name="test_a[5.3.3]"><skipped/></testcase>
<testcase classname="tests.store.reading.test_golden_stores" name="test_c[basic-53]"/>
</testsuite></testsuites>"""


def test_results_are_counted_by_claim_and_version(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(RESULTS, "utf-8")
    lines = table([tmp_path / "results.xml"]).splitlines()
    assert next(line for line in lines if "rebuilt by" in line).endswith("| **1 failed** of 2 |  | 1 |")
    assert next(line for line in lines if "messages, offsets" in line).endswith("|  | 1 |  |")


def test_rows_of_the_page_are_those_of_the_code_and_have_no_failure() -> None:
    rows = [line.split("|")[1].strip() for line in README.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert rows == ["what", *CLAIMS]
    assert "failed**" not in README.read_text("utf-8")
    assert [one for modules in CLAIMS.values() for one in modules if find_spec(one) is None] == []

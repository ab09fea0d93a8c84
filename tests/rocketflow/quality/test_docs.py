"""The site of results, in a real browser if there is one, and the commands that read results."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from rocketflow.cli.app import run
from rocketflow.quality.jobs.quality_job import QualityJob, QualityQuery, preflight
from rocketflow.quality.results.results import read_results
from rocketflow.quality.results.trend import trend_of
from tests.rocketflow.quality.topics import fill, write_suite
from tests.support.browser import Browser
from tests.support.output_fields import check_fields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LABEL = "expect_column_values_to_be_between(i)"


@pytest.fixture(scope="module")
def checked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a store with the results of three batches, and the site built from them."""
    home = tmp_path_factory.mktemp("docs")
    fill(home / "store", "data", [{"i": one} for one in (1, 2, 3, 4, -1, 6, -7, 8, 9)], queues=1)
    expectations = ("expect_column_values_to_be_between", {"column": "i", "min_value": 0})
    file = write_suite(
        home / "s.json",
        expectations,
        ("expect_column_max_to_be_between", {"column": "i", "max_value": 8}),
        schema="i int",
    )
    job = QualityJob(
        source=str(home / "store"),
        subscribe="data",
        suite=file,
        quarantine_topic="bad",
        good_topic="good",
        checkpoint=str(home / "checkpoint"),
        options={"maxOffsetsPerTrigger": "3"},
    )
    QualityQuery(spark, job, *preflight(job)).run()
    assert run(["quality", "docs", str(home / "store"), "--to", str(home / "site")]) == 0
    return home / "store", home / "site"


def test_trend_shows_the_rates_of_the_batches(
    checked: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, site = checked
    trend = trend_of(read_results(str(store)))
    assert [round(one.rate or 0, 3) for one in trend.expectations[LABEL]] == [1.0, 0.667, 0.667]
    assert [one.rate for one in trend.expectations["expect_column_max_to_be_between(i)"]] == [1, 1, 0]
    assert [round(one.rate or 0, 3) for one in trend.good] == [1.0, 0.667, 0.0]
    picture = ET.parse(site / "trend.svg").getroot()
    cells = [one for one in picture.iter("{http://www.w3.org/2000/svg}rect") if one.get("data-expectation") == LABEL]
    assert [one.get("data-rate") for one in cells] == ["1.0", "0.666667", "0.666667"]
    assert run(["quality", "results", str(store), "--json", "--max", "2"]) == 1, "a batch failed"
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["outcome"] for one in printed] == ["quarantined", "batch quarantined"]
    check_fields("quality results", *printed)
    assert run(["quality", "results", str(store), "--max", "1"]) == 1
    newest, reasons = capsys.readouterr().out.splitlines()
    assert newest.startswith("FAILED")
    assert reasons.strip() == f"quarantined by expect_column_max_to_be_between(i): 3; {LABEL}: 1"
    assert run(["quality", "docs", str(store), "--to", str(tmp_path / "new"), "--max", "1", "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    check_fields("quality docs", built)
    assert (built["index"], built["pages"]) == (str(tmp_path / "new" / "index.html"), 1)
    (site / "mine").touch()
    assert run(["quality", "docs", str(store), "--to", str(site.parent)]) == 2, "a directory that is no site"
    capsys.readouterr()


class Page(HTMLParser):
    """The links of a page of the site, and the resources that it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self._folder = file.parent
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href" and tag == "a" and value and not value.startswith("#"):
                self.links.append(value)
            elif name in ("src", "href", "data", "srcset", "poster"):
                self.loaded.append(value or "")
        if tag in ("script", "link", "iframe", "img"):
            self.loaded.append(tag)

    @property
    def targets(self) -> list[Path]:
        return [(self._folder / unquote(one.partition("#")[0])).resolve() for one in self.links]


def test_site_loads_nothing_and_its_links_lead_to_all_pages(checked: tuple[Path, Path]) -> None:
    """No page loads anything, each link leads to a page, and the first page leads to all of them."""
    _, site = checked
    front, index = site / "index.html", site / "data_docs" / "index.html"
    seen, left = set(), [front.resolve()]
    while left:
        file = left.pop()
        seen.add(file)
        page = Page(file)
        assert page.loaded == [], file
        assert not re.search(r"url\(|@import", file.read_text("utf-8")), file
        assert [one for one in page.targets if not one.is_file()] == [], file
        left += [one for one in page.targets if one not in seen]
    assert seen == {one.resolve() for one in site.rglob("*.html")}
    validations = {one.resolve() for one in (site / "data_docs" / "validations").rglob("*.html")}
    assert len(validations) == 3
    assert validations <= set(Page(front).targets)
    assert validations <= set(Page(index).targets)
    assert index.resolve() in Page(front).targets


@pytest.mark.browser
def test_a_browser_shows_the_site(checked: tuple[Path, Path], tmp_path: Path) -> None:
    browser = Browser(tmp_path / "profile")
    _, site = checked
    front = browser.document(site / "index.html")
    assert "Quality of data" in front
    assert front.count(f'data-expectation="{LABEL}"') == 3
    assert "batch quarantined" in front
    index = browser.text(site / "data_docs" / "index.html")
    assert "3 validation results" in index
    for place, outcome in (("[0, 3)", "passed"), ("[3, 6)", "quarantined"), ("[6, 9)", "batch quarantined")):
        assert re.search(rf"tested \w+ +\d +data/0 {re.escape(place)} +[-:\d ]+ +{outcome} ", index)
    page = browser.text(sorted((site / "data_docs" / "validations").rglob("*.html"))[1])
    assert re.search(r"Status: +Failed", page)
    assert re.search(r"33\.33\d*% +unexpected", page)
    assert "data/0 [3, 6)" in page
    for name in ("index.html", "data_docs/index.html"):
        assert browser.screenshot(site / name, tmp_path / "shown.png").startswith(b"\x89PNG")

"""The documentation site: every page is in it, links lead somewhere, a browser shows it without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.site import PAGES, SECTIONS, build, tracked_pages, write_source
from tests.support.browser import Browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("site")
    write_source(home / "source")
    assert build(home / "source", home / "html") == []
    return home / "html"


def test_every_page_has_one_place_in_the_sidebar() -> None:
    assert sorted(PAGES) == sorted(tracked_pages())


def test_broken_links_between_pages_are_warnings(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "other.md").write_text("---\norphan: true\n---\n# Other\n", "utf-8")
    links = ("other.md#other", "other.md#missing", "missing.md", "#nowhere")
    (source / "index.md").write_text("# Front\n\n" + "\n".join(f"[link]({one})\n" for one in links), "utf-8")
    lines = [int(line.split(":")[1]) for line in build(source, tmp_path / "html")]
    assert lines == [5, 7, 9]


def test_pages_load_nothing_from_a_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=\"(https?:[^\"]+)", page.read_text("utf-8"))
        assert loaded == [], page


@pytest.mark.browser
def test_browser_shows_pages_sidebar_and_search(site: Path, tmp_path: Path) -> None:
    browser = Browser(tmp_path / "profile")
    front = browser.document(site / "index.html")
    assert [heading for heading in SECTIONS if f">{heading}</span>" not in front] == []
    assert 'src="_images/pipeline.svg"' in front
    assert "flushDiskType" in browser.text(site / "rocketflow" / "cli" / "reference" / "settings.html")
    assert re.search(r"Search finished, found \w+ page", browser.text(site / "search.html", "?q=RF-FENCE"))
    assert browser.screenshot(site / "index.html", tmp_path / "front.png").startswith(b"\x89PNG")

"""Results as a static site that needs no network: the trend first, then Great Expectations' Data Docs.

Data Docs are rendered by GX from the results in the store, on demand: rendering takes seconds, too long for a batch.
Frame and index of its pages are RocketFlow's: GX's own load styles and scripts from other hosts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from rocketflow.errors import UsageError
from rocketflow.quality.gx.loading import load_great_expectations
from rocketflow.quality.results.results import read_results
from rocketflow.quality.results.trend import svg, table_rows, trend_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow.quality.results.results import BatchResult

_MARK: Final = ".rocketflow-quality-docs"
_DOCS: Final = "data_docs"
_VIEW: Final = {"module_name": "rocketflow.quality.results.offline_view", "class_name": "OfflinePageView"}
_SECTIONS: Final = {
    "expectations": {
        "class_name": "DefaultSiteSectionBuilder",
        "source_store_name": "expectations_store",
        "renderer": {"class_name": "ExpectationSuitePageRenderer"},
        "view": _VIEW,
    },
    "validations": {
        "class_name": "DefaultSiteSectionBuilder",
        "source_store_name": "validation_results_store",
        "renderer": {"class_name": "ValidationResultsPageRenderer"},
        "view": _VIEW,
        "run_name_filter": {"matches_regex": "^"},  # all: GX's default skips names with "profiling" in them
    },
    "profiling": "None",
}
_SUITES: Final = "expectations"
_BATCHES: Final = ("when", "batch", "where", "rows", "good", "quarantined", "malformed", "outcome", "suite")
_PAGES: Final = ("suite", "batch", "where", "when", "outcome", "rows", "quarantined", "malformed")


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """The site: its first page, the number of results with a page in Data Docs, and the share of good rows."""

    index: Path
    pages: int
    pass_rate: float


def build_site(store: str, target: Path, topic: str | None = None, most: int = 100) -> BuiltSite:
    """Build the site in `target`, which is replaced; the trend is of all results, Data Docs of the newest `most`."""
    results = read_results(store, topic)
    if not results:
        of = f" of topic {topic}" if topic else ""
        raise UsageError(f"{store}: holds no results{of}; run jobs/quality.py first")
    if target.exists() and not (target / _MARK).exists() and any(target.iterdir()):
        raise UsageError(f"{target}: holds files of no such site; give --to an empty or a new directory")
    target.mkdir(parents=True, exist_ok=True)
    (target / _MARK).touch()
    shutil.rmtree(target / _DOCS, ignore_errors=True)
    pages = _data_docs(results[-most:], target / _DOCS)
    (target / _DOCS / "index.html").write_text(_docs_index(results[-most:], pages), "utf-8")
    title = (
        f"Quality of {topic or ', '.join(sorted({part['topic'] for one in results for part in one.fields['ranges']}))}"
    )
    picture = svg(trend_of(results), title)
    (target / "trend.svg").write_text(picture, "utf-8")
    (target / "index.html").write_text(_front(title, picture, results, pages), "utf-8")
    rows = sum(one.fields["rows"] for one in results)
    good = sum(one.fields["good"] for one in results)
    return BuiltSite(target / "index.html", min(len(results), most), good / rows if rows else 1.0)


def _front(title: str, picture: str, results: Sequence[BatchResult], pages: Mapping[str, PurePosixPath]) -> str:
    links = {name: _DOCS / page for name, page in pages.items()}
    return _page(
        title,
        f'<p><a href="{_DOCS}/index.html">Data Docs of Great Expectations</a></p>\n{picture}\n'
        f"<h2>{len(results)} batches</h2>\n{_table(_BATCHES, results, links)}",
    )


def _docs_index(results: Sequence[BatchResult], pages: Mapping[str, PurePosixPath]) -> str:
    suites = "".join(
        f'<li><a href="{_href(_suite_page(name))}">{escape(name)}</a></li>'
        for name in sorted({one.fields["suite"]["name"] for one in results})
    )
    return _page(
        "Data Docs",
        f'<p><a href="../index.html">Trend</a></p>\n<h2>{len(results)} validation results, newest first</h2>\n'
        f'{_table(_PAGES, results, pages)}\n<h2>Expectation suites</h2><ul id="suites">{suites}</ul>',
    )


def _page(title: str, body: str) -> str:
    from rocketflow.quality.results.offline_view import SITE_STYLE

    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{SITE_STYLE}</style></head><body><h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )


def _table(columns: Sequence[str], results: Sequence[BatchResult], pages: Mapping[str, PurePosixPath]) -> str:
    """Return results as rows, newest first; the batch links to its page if it has one."""
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(_cell(name, row, pages.get(row["page"])) for name in columns) + "</tr>\n"
        for row in table_rows(results)
    )
    return f'<table id="batches"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'


def _cell(name: str, row: Mapping[str, Any], page: PurePosixPath | None) -> str:
    text = escape(str(row[name]))
    if name == "batch" and page is not None:
        text = f'<a href="{_href(page)}">{text}</a>'
    if name == "outcome":
        return f'<td class="{"passed" if row["success"] else "failed"}">{text}</td>'
    return f'<td class="number">{text}</td>' if isinstance(row[name], int) else f"<td>{text}</td>"


def _href(page: PurePosixPath) -> str:
    return escape(quote(str(page)))


def _suite_page(name: str) -> PurePosixPath:
    *folders, last = name.split(".")
    return PurePosixPath(_SUITES, *folders, f"{last}.html")


def _data_docs(results: Sequence[BatchResult], target: Path) -> dict[str, PurePosixPath]:
    """Build pages with GX's site builder, in a temporary context; return {result: its page}."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    load_great_expectations()
    import great_expectations as gx
    from great_expectations.core import ExpectationSuite
    from great_expectations.data_context.types.base import ProgressBarsConfig

    with tempfile.TemporaryDirectory(prefix="rocketflow-quality-") as home:
        context: Any = gx.get_context(mode="file", project_root_dir=home)
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        for name in list(context.get_site_names()):
            context.delete_data_docs_site(name)
        context.add_data_docs_site(
            site_name="rocketflow",
            site_config={
                "class_name": "SiteBuilder",
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
                "site_section_builders": _SECTIONS,
                "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(target.resolve())},
            },
        )
        newest = {one.fields["suite"]["name"]: one for one in results}
        for name, one in newest.items():
            asked = [each["expectation_config"] for each in one.fields["result"]["results"]]
            kept = [{key: each[key] for key in ("type", "kwargs", "meta", "severity") if key in each} for each in asked]
            context.suites.add(ExpectationSuite(name=name, expectations=kept))
        pages = {one.name: _store(context, one) for one in results}
        context.build_data_docs(site_names=["rocketflow"], build_index=False)
    shutil.rmtree(target / "static", ignore_errors=True)  # styles, fonts and pictures of GX's own frame
    return pages


def _store(context: Any, one: BatchResult) -> PurePosixPath:
    """Put a result into GX's store of results; return the page that the site builder will make of it."""
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult, RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    raw = one.fields["result"]
    when = datetime.fromtimestamp(one.stored_ms / 1000, UTC)
    run = RunIdentifier(run_name=one.name, run_time=when)
    places = "; ".join(
        f"{part['topic']}/{part['queueId']} [{part['from']}, {part['to']})" for part in one.fields["ranges"]
    )
    made = ExpectationSuiteValidationResult(
        success=raw["success"],
        results=[
            ExpectationValidationResult(
                success=each["success"],
                expectation_config=ExpectationConfiguration(
                    **{key: each["expectation_config"][key] for key in ("type", "kwargs", "meta", "severity")}
                ),
                result=each["result"],
                exception_info=each["exception_info"],
            )
            for each in raw["results"]
        ],
        suite_name=raw["suite_name"],
        statistics=raw["statistics"],
        meta={
            **raw["meta"],
            "run_id": {"run_name": one.name, "run_time": when.isoformat()},
            "validation_time": when.isoformat(),
            "batch_spec": {"ranges": places},
            "active_batch_definition": {
                "datasource_name": "rocketflow",
                "data_connector_name": "store",
                "data_asset_name": one.fields["ranges"][0]["topic"] if one.fields["ranges"] else "none",
                "batch_identifiers": {"batchId": one.fields["batchId"]},
            },
        },
    )
    key = ValidationResultIdentifier(
        expectation_suite_identifier=ExpectationSuiteIdentifier(name=raw["suite_name"]),
        run_id=run,
        batch_identifier=one.name,
    )
    context.validation_results_store.set(key, made)
    *folders, name = key.to_tuple()  # type: ignore[no-untyped-call]
    return PurePosixPath("validations", *folders, f"{name}.html")

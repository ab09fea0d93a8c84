"""Results as a static site: our trend page in front, Great Expectations' own Data Docs behind it.

Data Docs are rendered by GX from the results in the store, on demand: rendering costs GX seconds, which no batch has.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.quality.loading import load_great_expectations
from rocketflow.quality.results import read_results
from rocketflow.quality.trend import svg, table_rows, trend_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.quality.results import BatchResult

_MARK: Final = ".rocketflow-quality-docs"
_DOCS: Final = "data_docs"
_STYLE: Final = """
body { font: 14px/1.4 sans-serif; margin: 1.5rem; color: #222; }
svg { width: 100%; max-width: 1260px; border: 1px solid #ddd; }
table { border-collapse: collapse; } td, th { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }
td.number { text-align: right; } .failed { color: #b00020; } .passed { color: #1b7f3b; }
"""


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """What was built: its first page, results with a page in Data Docs, share of rows that went on."""

    index: Path
    pages: int
    pass_rate: float


def build_site(store: str, target: Path, topic: str | None = None, most: int = 100) -> BuiltSite:
    """Build the site in `target`, made anew; the trend is of all results, Data Docs of the newest `most`."""
    results = read_results(store, topic)
    if not results:
        of = f" of topic {topic}" if topic else ""
        raise UsageError(f"{store}: holds no results{of}; run jobs/quality.py first")
    if target.exists() and not (target / _MARK).exists() and any(target.iterdir()):
        raise UsageError(f"{target}: holds other things than such a site; give --to an empty or a new directory")
    target.mkdir(parents=True, exist_ok=True)
    (target / _MARK).touch()
    shutil.rmtree(target / _DOCS, ignore_errors=True)
    _data_docs(results[-most:], target / _DOCS)
    title = (
        f"Quality of {topic or ', '.join(sorted({part['topic'] for one in results for part in one.fields['ranges']}))}"
    )
    picture = svg(trend_of(results), title)
    (target / "trend.svg").write_text(picture, "utf-8")
    (target / "index.html").write_text(_page(title, picture, results), "utf-8")
    rows = sum(one.fields["rows"] for one in results)
    good = sum(one.fields["good"] for one in results)
    return BuiltSite(target / "index.html", min(len(results), most), good / rows if rows else 1.0)


def _page(title: str, picture: str, results: Sequence[BatchResult]) -> str:
    columns = ("when", "batch", "where", "rows", "good", "quarantined", "malformed", "outcome", "suite")
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"number" if isinstance(row[name], int) else row_class(row) if name == "outcome" else ""}">'
            f"{escape(str(row[name]))}</td>"
            for name in columns
        )
        + "</tr>\n"
        for row in table_rows(results)
    )
    head = "".join(f"<th>{name}</th>" for name in columns)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n"
        f'<p><a href="{_DOCS}/index.html">Data Docs of Great Expectations</a></p>\n{picture}\n'
        f'<h2>{len(results)} batches</h2>\n<table id="batches"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table>"
        "</body></html>\n"
    )


def row_class(row: dict[str, Any]) -> str:
    """How an outcome is shown."""
    return "passed" if row["success"] else "failed"


def _data_docs(results: Sequence[BatchResult], target: Path) -> None:
    """GX's own site builder, over a context that exists as long as it takes."""
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
                "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(target.resolve())},
            },
        )
        newest = {one.fields["suite"]["name"]: one for one in results}
        for name, one in newest.items():
            asked = [each["expectation_config"] for each in one.fields["result"]["results"]]
            kept = [{key: each[key] for key in ("type", "kwargs", "meta", "severity") if key in each} for each in asked]
            context.suites.add(ExpectationSuite(name=name, expectations=kept))
        for one in results:
            _store(context, one)
        context.build_data_docs(site_names=["rocketflow"])


def _store(context: Any, one: BatchResult) -> None:
    """A result where GX's site builder looks for results."""
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

"""`rocketflow quality ...`: draft a suite, check topics, print results. Only `check` and `run` start a JVM."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from rocketflow.cli.shared import failures
from rocketflow.cli.shared.parameters import time_argument

if TYPE_CHECKING:
    from rocketflow.quality.jobs.range_check import RangeCheck

quality_app = typer.Typer(help="Check topics by Great Expectations' suites.", no_args_is_help=True)

StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="The store directory.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


_CHECKED: Final = {
    "version": "version of this form of results",
    "suite": "the suite",
    "suite.name": "its name",
    "suite.version": "its version, a hash of its expectations",
    "ranges": "the messages that were checked, by queue",
    "ranges.topic": "topic",
    "ranges.queueId": "queue",
    "ranges.from": "queue offset of the first",
    "ranges.to": "queue offset after the last",
    "ranges.rows": "their number",
    "rows": "messages that were checked",
    "good": "messages without a finding that quarantines",
    "quarantined": "messages that break an expectation, or whose body cannot be read",
    "malformed": "messages whose body cannot be read",
    "malformedBy": "{reason: number of these messages}",
    "success": "whether every expectation is met",
    "outcome": "passed, warned, quarantined, or batch quarantined: a finding about all rows quarantines all",
    "validator": "pass, or gx if Great Expectations validated as well",
    "expectations": "the expectations of the suite",
    "expectations.label": "type, and the columns",
    "expectations.success": "whether it is met",
    "expectations.action": "quarantine, fail or warn",
    "expectations.unexpected": "rows that break it; null for expectations about all rows",
    "result": "Great Expectations' ExpectationSuiteValidationResult",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "quality init": {
        "suite": "file that was written",
        "expectations": "number of drafted expectations",
        "sampled": "messages that were read",
        "unreadable": "further messages of the sample, whose body could not be read",
        "bodySchema": "schema of the bodies in Spark's DDL",
        "leftOut": "fields that the draft omits: they hold lists, or a suite cannot name them",
    },
    "quality check": {**_CHECKED, "failed": "reasons why the check fails; empty if it passes"},
    "quality results": {
        "storeTimestamp": "time of the commit, ms",
        "query": "the query's name in its commits",
        "batchId": "batch of the query",
        **_CHECKED,
    },
    "quality docs": {
        "index": "first page of the site",
        "pages": "pages of results",
        "passRate": "share of good messages in all results, 0 to 1",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@quality_app.command()
def init(
    store: StoreArgument,
    topic: Annotated[str | None, typer.Option("--topic", help="The topic to draft a suite for.")] = None,
    of_store: Annotated[str | None, typer.Option("--store", hidden=True)] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="FILE", help="File to write (default: conf/expectations/TOPIC.json).")
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Approximate number of messages, from all parts of the topic.")
    ] = 10_000,
    body_format: Annotated[
        Literal["json", "csv", "text"], typer.Option("--body-format", help="Format of the bodies.")
    ] = "json",
    body_option: Annotated[
        list[str] | None, typer.Option("--body-option", metavar="K=V", help="For csv: sep, quote, escape, nullValue.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draft a suite from a sample of a topic, to be edited. Example: rocketflow quality init /data/s --topic flights"""
    from rocketflow.errors import UsageError
    from rocketflow.process.arguments import key_values
    from rocketflow.quality.jobs.draft_suite import draft_suite

    if of_store is not None and topic is None:
        store, topic = of_store, store  # the earlier spelling: init TOPIC --store PATH
    elif of_store is not None or topic is None:
        raise UsageError("name the store and the topic: rocketflow quality init STORE --topic TOPIC")
    target = Path(to) if to else Path("conf/expectations") / f"{topic}.json"
    if to != "-" and target.exists() and not force:
        raise UsageError(f"{target} exists: give --to another file, or --force to overwrite it")
    draft = draft_suite(store, topic, sample, body_format, key_values("--body-option", body_option or []))
    text = json.dumps(draft.suite, indent=2, ensure_ascii=False) + "\n"
    if to == "-":
        sys.stdout.write(text)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    count = len(draft.suite["expectations"])
    if as_json:
        fields = {"suite": str(target), "expectations": count, "sampled": draft.sampled, "unreadable": draft.unreadable}
        print(json.dumps({**fields, "bodySchema": draft.schema, "leftOut": list(draft.left_out)}, ensure_ascii=False))
        return
    print(f"{target}: {count} expectations from {draft.sampled} messages, {draft.unreadable} could not be read")
    if draft.left_out:
        print(f"omitted, because they hold lists or a suite cannot name them: {', '.join(draft.left_out)}")
    print("edit it, then: rocketflow quality check", store, "--topic", topic, "--suite", target)


@quality_app.command()
def check(
    store: StoreArgument,
    topic: Annotated[str, typer.Option("--topic", help="The topic.")],
    suite: Annotated[str, typer.Option("--suite", metavar="FILE", help="The suite.")],
    from_ms: Annotated[
        int | None,
        typer.Option(
            "--begin",
            "--from-ms",
            metavar="TIME",
            parser=time_argument,
            help="Stored at or after this time, ISO 8601 or ms (--from-ms is the old name).",
        ),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option(
            "--end", metavar="TIME", parser=time_argument, help="Stored at or before this time, ISO 8601 or ms."
        ),
    ] = None,
    to_ms: Annotated[
        int | None,
        typer.Option("--to-ms", metavar="TIME", parser=time_argument, help="Stored before this time; use --end."),
    ] = None,
    body_schema: Annotated[
        str | None, typer.Option("--body-schema", metavar="DDL|FILE", help="Schema of bodies (default: the suite's).")
    ] = None,
    body_format: Annotated[
        Literal["json", "csv", "text", "none"] | None,
        typer.Option("--body-format", help="Format of the bodies (default: the suite's)."),
    ] = None,
    body_option: Annotated[
        list[str] | None, typer.Option("--body-option", metavar="K=V", help="An option of Spark's parser of bodies.")
    ] = None,
    validator: Annotated[
        Literal["pass", "gx"], typer.Option("--validator", help="gx: Great Expectations validates as well.")
    ] = "pass",
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="K=V", help="An option of the source.")
    ] = None,
    master: Annotated[str, typer.Option("--master", help="Spark master.")] = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Check a range of a topic without writing; exit code 1 if it fails.

    Example: rocketflow quality check /data/s --topic flights --suite conf/expectations/flights.json --begin 0
    """
    from rocketflow.process.arguments import key_values
    from rocketflow.quality.jobs.range_check import RangeCheck

    if end is not None:
        to_ms = end + 1 if to_ms is None else min(to_ms, end + 1)
    options, body_options = key_values("--option", option or []), key_values("--body-option", body_option or [])
    found = _checked(
        RangeCheck(store, topic, suite, from_ms, to_ms, body_schema, body_format, validator, options, body_options),
        master,
    )
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        for one in found["expectations"]:
            mark = "ok  " if one["success"] else "warn" if one["action"] == "warn" else "FAIL"
            print(f"{mark}  {one['label']}" + (f"  {one['unexpected']} unexpected" if one["unexpected"] else ""))
        for why, rows in found["malformedBy"].items():
            print(f"FAIL  body {why}  {rows} rows")
        print(f"{found['rows']} rows, {found['quarantined']} bad rows, {found['malformed']} unreadable bodies")
    if found["failed"]:
        print(f"error: topic {topic} does not pass {suite}: {'; '.join(found['failed'])}", file=sys.stderr)
        raise typer.Exit(failures.EXIT_FINDINGS)


def _checked(check: RangeCheck, master: str) -> dict[str, Any]:
    from rocketflow.errors import RocketFlowError
    from rocketflow.process.job_errors import exit_code_of
    from rocketflow.quality.jobs.range_check import check_range, preflight
    from rocketflow.quality.jobs.session import quality_session

    preflight(check)
    spark = quality_session("rocketflow-quality-check", master, fast_start=True)
    try:
        return check_range(spark, check)
    except RocketFlowError:
        raise
    except Exception as error:  # the text of Spark's error holds the error of a task
        raise typer.Exit(exit_code_of(error)) from error
    finally:
        spark.stop()


@quality_app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def run(context: typer.Context) -> None:
    """Run jobs/quality.py under spark-submit, with its arguments. Example: rocketflow quality run --help"""
    from rocketflow.spark.submit import submit_job

    raise typer.Exit(submit_job("quality", context.args))


@quality_app.command()
def results(
    store: StoreArgument,
    topic: Annotated[str | None, typer.Option("--topic", help="Only results of this topic.")] = None,
    most: Annotated[int | None, typer.Option("--max", min=0, help="Only the newest N results.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the results of checks in a store, oldest first; exit code 1 if one of them failed.

    Example: rocketflow quality results /data/s --max 1
    """
    from rocketflow.errors import UsageError
    from rocketflow.process.nearest import did_you_mean
    from rocketflow.quality.results.results import quarantine_reasons, read_results, reasons_text
    from rocketflow_store import StoreConfig, StoreReader

    found = read_results(store, topic, most)
    if topic is not None and not found and most != 0:
        with StoreReader(store, StoreConfig.load()) as reader:
            if topic not in reader.topics():
                hint = did_you_mean(topic, reader.topics())
                raise UsageError(f"{store}: holds no results of topic {topic}, nor the topic; {hint}")
    for one in found:
        if as_json:
            print(json.dumps({"storeTimestamp": one.stored_ms, **one.fields}, ensure_ascii=False))
            continue
        fields = one.fields
        where = " ".join(f"{part['topic']}/{part['queueId']}[{part['from']},{part['to']})" for part in fields["ranges"])
        print(
            f"{'passed' if fields['success'] else 'FAILED'}  batch {fields['batchId']}  {fields['rows']} rows, "
            f"{fields['quarantined']} quarantined  suite {fields['suite']['name']} {where}"
        )
        if reasons := quarantine_reasons(fields):
            print(f"        quarantined by {reasons_text(reasons)}")
    if any(not one.fields["success"] for one in found):
        raise typer.Exit(failures.EXIT_FINDINGS)


@quality_app.command()
def docs(
    store: StoreArgument,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="A new directory, or an earlier site.")],
    topic: Annotated[str | None, typer.Option("--topic", help="Only results of this topic.")] = None,
    most: Annotated[int, typer.Option("--max", min=1, help="Pages for the newest N results.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Build a site of results: GX's Data Docs and the trend. Example: rocketflow quality docs /data/s --to docs"""
    from rocketflow.quality.results.data_docs import build_site
    from rocketflow.quality.results.trend import percent

    built = build_site(store, Path(to), topic, most)
    if as_json:
        print(json.dumps({"index": str(built.index), "pages": built.pages, "passRate": built.pass_rate}))
        return
    print(f"{built.index}: {built.pages} results, pass rate {percent(built.pass_rate)}")

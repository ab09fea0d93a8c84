"""The reference matches the code: pages, `explain`, and no name without an entry."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

from rocketflow.broker.settings import BrokerSettings
from rocketflow.cli.app import command_tree, run
from rocketflow.cli.reference.entries import (
    BROKER_SETTING,
    COMMAND,
    EVENT,
    NAMESRV_SETTING,
    OTHER_KEY,
    OUTPUT,
    SERVER_SETTING,
    SETTING,
    SINK_OPTION,
    all_entries,
    find_entries,
    output_fields,
)
from rocketflow.cli.reference.pages import DIRECTORY, pages
from rocketflow.environment import VARIABLES
from rocketflow.namesrv.settings import NamesrvSettings
from rocketflow.spark.sink.sink_options import SinkOptions
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.submit import job_names
from rocketflow_store import StoreConfig
from tests.support.output_fields import check_fields

STORED_NAMES: Final = (Path(__file__).parents[2] / "project" / "stored_names.txt").read_text("utf-8").splitlines()
SERVER_KINDS: Final = (SERVER_SETTING, BROKER_SETTING, NAMESRV_SETTING)
ENTRIES: Final = all_entries(command_tree())


def names(kind: str) -> set[str]:
    return {one.name for one in ENTRIES if one.kind == kind}


def test_pages_match_the_code() -> None:
    written = pages(ENTRIES)
    assert {*written, "requests.md"} == {path.name for path in DIRECTORY.glob("*.md")}
    for name, text in written.items():
        assert (DIRECTORY / name).read_text("utf-8") == text, f"{name} is stale: run `make reference`"


def test_every_setting_command_and_event_has_an_entry() -> None:
    settings = {field for one in ENTRIES if one.kind == SETTING for field in one.also}
    assert {one.name for one in fields(StoreConfig)} - settings == {"clock", "without_effect"}
    listed = {one.removeprefix("command rocketflow ") for one in STORED_NAMES if one.startswith("command ")}
    groups = {one for one in listed if any(other.startswith(f"{one} ") for other in listed)}
    assert names(COMMAND) == listed - groups
    assert names(EVENT) == {one.removeprefix("event code ") for one in STORED_NAMES if one.startswith("event code ")}


def test_every_key_of_servers_has_an_entry_with_a_description_and_those_with_effect_a_line_on_a_page() -> None:
    about = {one.name: one.about for one in ENTRIES if one.kind in (SETTING, *SERVER_KINDS, OTHER_KEY)}
    written = "".join(pages(ENTRIES).values())
    for kind in (BrokerSettings, NamesrvSettings):
        for key, row in kind.TABLE.items():
            assert about[key], key
            assert not row.field or f"| `{key}` | {row.about}" in written, key
    keys = {one.key for kind in (BrokerSettings, NamesrvSettings) for one in kind.TABLE.values() if one.field}
    assert len(keys) >= 140


def test_every_field_of_json_output_is_described() -> None:
    found = [re.fullmatch(r"JSON ([^:]+): (.+)", one) for one in STORED_NAMES]
    printed = {(one[1], one[2]) for one in found if one is not None and not one[2].startswith("content.")}
    described = {(command, name) for command, fields in output_fields().items() for name in fields}
    assert described - printed == {(f"store {name}", "bodyError") for name in ("cat", "find")}
    assert printed - described == set()
    assert names(OUTPUT) == {one if one.startswith("submit ") else f"{one} --json" for one in output_fields()}


def test_every_command_and_job_that_prints_json_is_described() -> None:
    """The commands of the bridge parse their options, among them --json, themselves."""
    options = {re.fullmatch(r"option rocketflow (.+) --json", one) for one in STORED_NAMES}
    printing = {one[1] for one in options if one} | {"bridge kafka-to-store", "bridge store-to-kafka"}
    printing |= {f"submit {job}" for job in job_names()}
    assert {" ".join(one.partition(" --")[0].split()[:2]) for one in output_fields()} == printing


def test_options_with_a_kind_are_parsed_to_their_defaults() -> None:
    parsed = SourceOptions.parse({"path": "/s", "subscribe": "t"}, streaming=True)
    assert (parsed.fail_on_data_loss, parsed.include_properties, parsed.max_trigger_delay_ms) == (True, False, 900_000)
    sink = SinkOptions.parse({"path": "/s"})
    assert (sink.queues, sink.flush_disk_type.value, sink.lock_timeout_ms) == (8, "SYNC_FLUSH", 60_000)
    facts = {one.name: dict(one.facts) for one in ENTRIES if one.kind == SINK_OPTION}
    assert facts["lockTimeout"] == {"default": "60s", "values": "duration (500ms, 30s, 15m)"}


def test_explain_prints_every_entry_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "FLUSHdisktype", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    check_fields("explain", *found)
    assert [one["kind"] for one in found] == ["setting", "sink option"]
    assert found[0]["facts"]["environment"] == "ROCKETFLOW_flushDiskType"
    for name in ("ROCKETFLOW_directIO", "flush_disk_type", "store verify", "RF-FENCE", "75", "submit stream"):
        assert run(["explain", name]) == 0
        assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("listenPort", BROKER_SETTING),
        ("tls.server.keyPath", SERVER_SETTING),
        ("ROCKETFLOW_tls_server_keyPath", SERVER_SETTING),
        ("maxConnections", SERVER_SETTING),
        ("kvConfigPath", NAMESRV_SETTING),
        ("wakeFlushWhenPutMessage", OTHER_KEY),
        ("send_timeout_s", "option of a producer"),
        ("--kafka-option", "argument of bridge"),
        ("kafka-option", "argument of submit kafka_bridge"),
        ("--from-topic", "argument of submit requeue"),
        ("sasl.password", "option of kafka-python's client"),
        ("ROCKETFLOW_PROFILE", "environment variable"),
        ("--namesrvAddr", "option of commands"),
        ("physicalOffset", "field of JSON output"),
        ("store", "group of commands"),
    ],
)
def test_explain_answers_for_every_kind_of_name(name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", name, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert kind in [one["kind"] for one in found]
    assert all(one["about"] for one in found)


def test_every_option_argument_and_field_is_found_by_its_spelling() -> None:
    options = {one.rpartition(" ")[2] for one in STORED_NAMES if one.startswith("option rocketflow ") and " -" in one}
    fields = {name for named in output_fields().values() for name in named}
    arguments = {one.name for one in ENTRIES if one.kind.startswith("argument of ")}
    for name in {*options, *fields, *arguments, *(one.key for one in VARIABLES)}:
        assert find_entries(name, ENTRIES), name


def test_explain_names_the_nearest_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "flushDiskTyp"]) == 2
    assert "did you mean flushDiskType?" in capsys.readouterr().err


def test_explain_names_the_kinds_of_entries_if_none_is_similar(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "nosuch"]) == 2
    printed = capsys.readouterr().err
    assert "event code" in printed
    assert "did you mean" not in printed
    assert run(["explain", "portOfTheBroker"]) == 2
    assert "did you mean" not in capsys.readouterr().err, "a hint is given for a near name only"
    assert "there is 0" not in printed

"""Every command and option that takes a time accepts the same forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketflow.cli.admin.targets import time_of
from rocketflow.cli.app import run
from rocketflow.errors import UsageError
from rocketflow.process.times import SecondsError, iso_time, parse_time
from rocketflow.spark.requeue.requeue_arguments import parse_arguments
from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow_store import Message, MessageStore

NOON = 1_769_860_800_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (str(NOON), NOON),
        ("-1", -1),
        ("2026-01-31T12:00:00", NOON),
        ("2026-01-31 12:00", NOON),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T13:00:00.250+01:00", NOON + 250),
        ("2026-01-31", NOON - 12 * 3_600_000),
    ],
)
def test_time_is_read_as_milliseconds_or_iso(text: str, ms: int) -> None:
    assert parse_time(text) == ms
    assert parse_time(iso_time(ms)) == ms


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01", "1e3", "9" * 19, "²", "2026-01-31T25:00"])
def test_text_that_names_no_time_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601 such as"):
        parse_time(text)


@pytest.mark.parametrize(("text", "meant"), [("1700000000", "2023-11-14T22:13:20"), ("4102444800", "2100-01-01")])
def test_number_of_seconds_is_refused_with_the_time_that_it_names(text: str, meant: str) -> None:
    with pytest.raises(SecondsError, match=rf"{text} is .*1970-.*give {text}000 \({meant}"):
        parse_time(text)
    for option in ("startingTimestamp", "endingTimestamp"):
        with pytest.raises(OptionError, match=f"option {option}: {text} is .* give {text}000"):
            SourceOptions.parse({"path": "/s", "subscribe": "t", option: text}, streaming=False)
    for option in ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
        for value in (text, f'"{text}"'):
            given = {"path": "/s", "subscribe": "t", option: f'{{"t": {{"0": {value}}}}}'}
            with pytest.raises(OptionError, match=f"option {option}, topic t: {text} is .* give {text}000"):
                SourceOptions.parse(given, streaming=False)
    with pytest.raises(UsageError, match=f"--until '{text}': {text} is .* give {text}000"):
        parse_arguments(["--store", "/s", "--until", text])
    with pytest.raises(UsageError, match=f"{text} is .* give {text}000"):
        time_of(text)


def test_time_that_no_calendar_has_is_printed_as_its_number() -> None:
    assert iso_time((1 << 63) - 1) == str((1 << 63) - 1)


def test_source_options_take_iso_times() -> None:
    given = {"path": "/s", "subscribe": "t"}
    by_queue = '{"t": {"0": "2026-01-31T12:00:00", "1": 5}}'
    read = SourceOptions.parse({**given, "startingTimestamp": "2026-01-31T12:00:00"}, streaming=True)
    assert read.starting.timestamp_ms == NOON
    read = SourceOptions.parse({**given, "endingTimestamp": "2026-01-31T13:00+01:00"}, streaming=False)
    assert read.ending.timestamp_ms == NOON
    read = SourceOptions.parse({**given, "startingOffsetsByTimestamp": by_queue}, streaming=True)
    assert read.starting.by_topic() == {"t": {0: NOON, 1: 5}}
    with pytest.raises(OptionError, match=r"startingTimestamp='noon'.*ISO 8601"):
        SourceOptions.parse({**given, "startingTimestamp": "noon"}, streaming=True)
    for wrong in ('{"t": {"0": "noon"}}', '{"t": {"0": -5}}', '{"t": {"x": 5}}', '{"t": 5}', "{}"):
        with pytest.raises(OptionError, match="startingOffsetsByTimestamp"):
            SourceOptions.parse({**given, "startingOffsetsByTimestamp": wrong}, streaming=True)


def test_requeue_until_takes_iso_times() -> None:
    assert parse_arguments(["--store", "/s", "--until", "2026-01-31T12:00:00Z"]).until_ms == NOON


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a store of twelve messages, distributed in turn over three queues."""
    path = tmp_path_factory.mktemp("times") / "s"
    with MessageStore.open(path) as opened:
        for n in range(12):
            tags = "even" if n % 2 == 0 else "odd"
            opened.put_message(Message("t", b"%d" % n, tags=tags, keys="k", queue_id=n % 3))
    return path


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, object]]:
    assert run([*map(str, words), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def bodies(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    return [str(row["body"]) for row in answer(capsys, *words)]


def test_store_commands_take_iso_times(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    cat = "store", "cat", store, "--topic", "t"
    stored = [int(str(row["storeTimestamp"])) for row in answer(capsys, *cat)]
    first, after = iso_time(min(stored)), iso_time(max(stored) + 1)
    find = "store", "find", store, "--topic", "t", "--key", "k"
    assert len(bodies(capsys, *find, "--begin", first, "--end", after)) == 12
    assert run([*map(str, find), "--begin", after]) == 1
    capsys.readouterr()
    assert answer(capsys, "store", "offset", store, "--topic", "t", "--queue", 0, "--timestamp", after) == [
        {"offset": 4}
    ]
    assert len(bodies(capsys, *cat, "--since", first)) == 12
    assert bodies(capsys, *cat, "--begin", after) == []
    assert len(bodies(capsys, *cat, "--begin", first)) == 12
    for words in ((*cat, "--since"), (*find, "--begin")):
        assert run([*map(str, words), "noon"]) == 2
        assert "ISO 8601" in capsys.readouterr().err


def test_tables_print_readable_times_and_json_milliseconds(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    (newest,) = answer(capsys, "store", "cat", store, "--topic", "t", "--last", 1)
    assert type(newest["storeTimestamp"]) is int
    assert run(["store", "cat", str(store), "--topic", "t"]) == 0
    assert iso_time(newest["storeTimestamp"]) in capsys.readouterr().out


def test_last_shows_the_newest_messages_of_all_queues_in_the_order_of_the_log(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    cat = "store", "cat", store, "--topic", "t"
    assert bodies(capsys, *cat, "--last", 4) == ["8", "9", "10", "11"]
    assert bodies(capsys, *cat, "--last", 2, "--queue", 1) == ["7", "10"]
    assert bodies(capsys, *cat, "--last", 3, "--tags", "odd") == ["7", "9", "11"]
    assert bodies(capsys, *cat, "--tail", 2) == ["10", "11"]
    assert bodies(capsys, *cat, "--last", 99) == [str(n) for n in range(12)]
    for more in (("--max", 1), ("--last", 0)):
        assert run([*map(str, (*cat, "--last", 2, *more))]) == 2


def test_appended_lines_take_iso_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(
        '{"body": "a", "bornTimestamp": "2026-01-31T12:00:00"}\n{"body": "b", "bornTimestamp": "noon"}\n'
    )
    MessageStore.open(tmp_path / "s").close()
    words = ["store", "append", str(tmp_path / "s"), "--topic", "t", "--input", str(tmp_path / "lines")]
    assert run(words) == 1
    assert "bornTimestamp: 'noon' is not a valid time" in capsys.readouterr().err
    assert [row["bornTimestamp"] for row in answer(capsys, "store", "cat", tmp_path / "s", "--topic", "t")] == [NOON]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--begin", "5", "--end", "9"), (5, 10)),
        (("--from-ms", "5", "--to-ms", "9"), (5, 9)),
        (("--end", "9", "--to-ms", "20"), (None, 10)),
    ],
)
def test_end_of_a_check_is_part_of_its_range(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    wanted: tuple[int | None, int],
) -> None:
    from rocketflow.quality.jobs import range_check

    def ranged(store: str, topic: str, suite: str, *rest: object) -> None:
        raise UsageError(f"range {rest[:2]}")

    monkeypatch.setattr(range_check, "RangeCheck", ranged)
    assert run(["quality", "check", "/s", "--topic", "t", "--suite", "f", *words]) == 2
    assert capsys.readouterr().err == f"error: range {wanted}\n"

"""Names that do not exist are refused with the nearest one that does, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore
from rocketflow_store.commits.store_commits import StoreCommits
from rocketflow_store.delivery.requeue.requeue_run import RequeueRequest, begin_run

INTO_STORE = ("--queues", "--share", "--hold-store")
INTO_KAFKA = ("--by-key", "--create-topics", "--origin-headers", "--progress-topic")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with two topics, and a requeue run `fix-7` of one of them."""
    path = tmp_path_factory.mktemp("typos") / "s"
    with MessageStore.open(path) as opened:
        for topic in ("orders", "flights"):
            opened.put_message(Message(topic, b"x", keys="k", tags="a", queue_id=0))
        begin_run(StoreCommits(opened), RequeueRequest("fix-7", "orders", "flights"), {0: (0, 1)})
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cat", "--topic", "order"), "did you mean orders?"),
        (("offset", "--topic", "order", "--queue", "0", "--timestamp", "0"), "did you mean orders?"),
        (("export", "--topic", "order", "--to", "/nowhere"), "did you mean orders?"),
        (("find", "--topic", "order", "--key", "k"), "did you mean orders?"),
        (("find", "--topic", "order", "--tags", "a"), "did you mean orders?"),
        (("find", "--topic", "order", "--uniq-key", "k"), "did you mean orders?"),
        (("rebuild", "--topic", "order", "--dry-run"), "did you mean orders?"),
        (("cat", "--topic", "xyz"), "there is flights, orders"),
        (("ledger", "--kind", "requeu"), "did you mean requeue?"),
        (("ledger", "--run-id", "fix-8"), "did you mean fix-7?"),
        (("cat", "--topic", "orders", "--bdy", "text"), "--body"),
        (("cat", "--topic", "orders", "--body", "txt"), "'txt' is not one of 'text', 'base64', 'sha256', 'none'"),
    ],
)
def test_name_that_does_not_exist_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str], store: Path, words: tuple[str, ...], said: str
) -> None:
    assert run(["store", words[0], str(store), *words[1:]]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err


def test_unknown_job_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["submit", "strem"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "did you mean 'stream'?" in err


def test_existing_names_are_accepted(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert run(["store", "find", str(store), "--topic", "orders", "--key", "none"]) == 1
    assert run(["store", "ledger", str(store), "--kind", "timer"]) == 0
    assert run(["store", "ledger", str(store), "--kind", "requeue", "--run-id", "fix-7", "--all"]) == 0
    assert "fix-7" in capsys.readouterr().out


def test_append_creates_a_store_only_with_create(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"body": "x"}\n')
    (tmp_path / "empty").mkdir()
    words = ["--topic", "t", "--input", str(tmp_path / "lines")]
    for path in (tmp_path / "stor", tmp_path / "empty"):
        assert run(["store", "append", str(path), *words]) == 2
        assert "--create" in capsys.readouterr().err
        assert not path.exists() or not any(path.iterdir())
        assert run(["store", "append", str(path), *words, "--create"]) == 0
        assert run(["store", "append", str(path), *words]) == 0


@pytest.mark.parametrize(
    ("command", "choices"),
    [
        ("offset", "<lower|upper|nearest>"),
        ("append", "<sync|async>"),
        ("rebuild", "<consumequeue|index>"),
        ("rebuild", "<local|spark>"),
        ("rebuild", "<5.3|5.5>"),
        ("cat", "<text|base64|sha256|none>"),
        ("cat", "--last"),
        ("cat", "--since TIME"),
        ("find", "--tags"),
    ],
)
def test_help_names_options_and_choices(capsys: pytest.CaptureFixture[str], command: str, choices: str) -> None:
    assert run(["store", command, "--help"]) == 0
    assert choices in capsys.readouterr().out


def test_tables_align_columns_and_set_numbers_to_the_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as opened:
        opened.put_messages([Message("t", b"x" * n, tags="Köln" if n == 1 else "日本", queue_id=0) for n in (1, 100)])
    assert run(["store", "cat", str(tmp_path / "s"), "--topic", "t"]) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["topic", "queueId", "queueOffset", "storeTimestamp", "tags", "keys", "bodySize", "body"]
    end = header.index("bodySize") + len("bodySize")
    assert first[: end + 3].endswith("       1  x")
    assert second[:end].endswith("     100  ")  # the two characters of its tags take four places
    assert first[header.index("keys")] == "-"  # unknown in every row, so not a number
    assert run(["store", "info", str(tmp_path / "s")]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("topic "))
    assert lines[at].split() == ["topic", "queues", "messages"]
    assert len(lines[at]) == len(lines[at + 1])


@pytest.mark.parametrize(
    ("direction", "shown", "hidden"),
    [("kafka-to-store", INTO_STORE, INTO_KAFKA), ("store-to-kafka", INTO_KAFKA, INTO_STORE)],
)
def test_bridge_help_shows_the_options_of_its_direction(
    capsys: pytest.CaptureFixture[str], direction: str, shown: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    assert run(["bridge", direction, "--help"]) == 0
    out = capsys.readouterr().out
    assert all(option in out for option in ("--bootstrap", "--topics", "--json", *shown))
    assert not any(option in out for option in hidden)
    wrong = [hidden[0], *(["1"] if hidden[0] == "--queues" else [])]
    asked = ["bridge", direction, "--bootstrap", "127.0.0.1:1", "--store", "/s", "--topics", "t"]
    assert run([*asked, *wrong]) == 2  # it is a known option, and the error names its direction
    assert "has no meaning with" in capsys.readouterr().err


def test_quality_commands_name_the_store_first(capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path) -> None:
    for command in ("init", "check", "results", "docs"):
        assert run(["quality", command, "--help"]) == 0
        assert capsys.readouterr().out.split("Arguments:")[1].split()[0] == "STORE"
    for words in ([str(store), "--topic", "order"], ["order", "--store", str(store)]):
        assert run(["quality", "init", *words, "--to", str(tmp_path / "suite.json")]) == 2
        assert "did you mean orders?" in capsys.readouterr().err
    assert run(["quality", "init", str(store)]) == 2
    assert "--topic" in capsys.readouterr().err
    assert run(["quality", "results", str(store), "--topic", "order"]) == 2
    assert "did you mean orders?" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "code"), [("cat", 0), ("find", 1)])
def test_tags_that_are_joined_otherwise_are_noted(
    store: Path, capsys: pytest.CaptureFixture[str], command: str, code: int
) -> None:
    assert run(["store", command, str(store), "--topic", "orders", "--tags", "a,b"]) == code
    assert "note: --tags 'a,b' names one tag; did you mean --tags 'a || b'?" in capsys.readouterr().err

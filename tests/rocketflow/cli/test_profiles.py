"""`rocketflow profile`, and what commands take from a profile: address, account, TLS."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.cli.shared.client_options import client_options
from rocketflow.client import ClientOptions, ProducerOptions
from rocketflow.errors import UsageError
from tests.support.certificates import Authority
from tests.support.output_fields import check_fields

TEST, PROD = "127.0.0.1:9876", "10.0.0.1:9876;10.0.0.2:9876"
SECRET = "secret-of-boss"
VARIABLES = (
    "NAMESRV_ADDR", "ROCKETFLOW_PROFILE", "ROCKETFLOW_ACCESS_KEY", "ROCKETFLOW_SECRET_KEY", "ROCKETFLOW_TLS_ENABLE",
    "ROCKETFLOW_TLS_CLIENT_TRUST_CERT_PATH", "ROCKETFLOW_TLS_CLIENT_CERT_PATH", "ROCKETFLOW_TLS_CLIENT_KEY_PATH",
    "ROCKETFLOW_TLS_CLIENT_AUTH_SERVER",
)  # fmt: skip


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the place of the profiles, below a directory of the test."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "rocketflow" / "profiles.json"


@pytest.fixture
def made(tmp_path: Path) -> None:
    """Make the profiles `test`, which is used, and `prod`, with an account and TLS."""
    account = tmp_path / "account.yml"
    account.write_text(f"accessKey: boss\nsecretKey: {SECRET}\n")
    assert run(["profile", "set", "test", "-n", TEST]) == 0
    assert run(["profile", "set", "prod", "-n", PROD, "--credentials", str(account), "--tls"]) == 0


def options(name_servers: str = "", profile: str = "") -> ClientOptions:
    return client_options(name_servers, None, profile=profile, tls=False, tls_ca="", tls_cert="", tls_key="")


def taken(name_servers: str = "", profile: str = "") -> tuple[str, str | None, bool]:
    """Return NameServers, account and TLS of a client."""
    found = options(name_servers, profile)
    account = None if found.credentials is None else found.credentials.access_key
    return found.name_servers, account, found.tls is not None


def test_profiles_are_listed_without_secrets_in_a_file_of_their_owner(
    made: None, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert SECRET in file.read_text()
    capsys.readouterr()
    assert run(["profile", "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"name": "prod", "namesrvAddr": PROD, "account": "boss", "tls": True, "used": False},
        {"name": "test", "namesrvAddr": TEST, "account": None, "tls": False, "used": True},
    ]
    check_fields("profile list", *rows)
    assert run(["profile", "list"]) == 0
    said = capsys.readouterr().out
    assert SECRET not in said
    assert [line.split() for line in said.splitlines()][1] == ["prod", PROD, "boss", "yes", "no"]


def test_commands_take_the_used_profile_where_nothing_names_a_name_server(
    made: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taken() == (TEST, None, False)
    assert run(["profile", "use", "prod"]) == 0
    assert taken() == (PROD, "boss", True)
    assert taken("other:1") == ("other:1", None, False)
    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    assert taken() == ("env:1", None, False)
    monkeypatch.delenv("NAMESRV_ADDR")
    monkeypatch.setenv("ROCKETFLOW_ACCESS_KEY", "mine")
    monkeypatch.setenv("ROCKETFLOW_SECRET_KEY", "s")
    assert taken() == (PROD, "mine", True)
    assert run(["profile", "delete", "prod"]) == 0
    with pytest.raises(UsageError, match="no NameServer is given"):
        options()


def test_named_profile_stands_above_the_environment_and_below_options(
    made: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    monkeypatch.setenv("ROCKETFLOW_ACCESS_KEY", "mine")
    monkeypatch.setenv("ROCKETFLOW_SECRET_KEY", "s")
    assert taken(profile="prod") == (PROD, "boss", True)
    assert taken(profile="test") == (TEST, None, False)
    assert taken("other:1", profile="prod") == ("other:1", "boss", True)
    monkeypatch.setenv("ROCKETFLOW_PROFILE", "prod")
    assert taken() == (PROD, "boss", True)
    assert taken(profile="test") == (TEST, None, False)


@pytest.mark.parametrize(
    "words",
    [
        ["send", "--topic", "t", "x", "--profile", "away"],
        ["consume", "--topic", "t", "--profile", "away"],
        ["admin", "topicList", "--profile", "away"],
        ["--profile", "away", "admin", "topicList"],
    ],
)
def test_network_commands_take_a_profile(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setitem(ClientOptions.__init__.__kwdefaults__, "timeout_s", 0.1)
    monkeypatch.setitem(ProducerOptions.__init__.__kwdefaults__, "send_timeout_s", 0.1)
    assert run(["profile", "set", "away", "-n", "127.0.0.1:1"]) == 0
    assert run(words) == 69
    assert "no NameServer answers: 127.0.0.1:1: " in capsys.readouterr().err


def test_jobs_get_the_profile_by_their_environment(made: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rocketflow.spark import submit

    found: dict[str, str] = {}

    def submit_job(job: str, arguments: list[str]) -> int:
        found.update({name: os.environ[name] for name in VARIABLES if name in os.environ})
        return 0

    monkeypatch.setattr(submit, "submit_job", submit_job)
    monkeypatch.setenv("ROCKETFLOW_TLS_CLIENT_CERT_PATH", "of another cluster")
    assert run(["--profile", "prod", "submit", "stream"]) == 0
    assert found == {
        "NAMESRV_ADDR": PROD,
        "ROCKETFLOW_PROFILE": "prod",
        "ROCKETFLOW_ACCESS_KEY": "boss",
        "ROCKETFLOW_SECRET_KEY": SECRET,
        "ROCKETFLOW_TLS_ENABLE": "true",
        "ROCKETFLOW_TLS_CLIENT_AUTH_SERVER": "false",
    }


def test_files_of_tls_are_checked_and_found_from_other_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path).path
    monkeypatch.chdir(authority.parent)
    assert run(["profile", "set", "secure", "-n", TEST, "--tls-ca", "missing.pem"]) == 2
    assert "missing.pem" in capsys.readouterr().err
    assert run(["profile", "set", "secure", "-n", TEST, "--tls-ca", authority.name]) == 0
    monkeypatch.chdir("/")
    assert taken() == (TEST, None, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["profile", "use", "tset"], "no profile 'tset': did you mean test?"),
        (["profile", "delete", "x"], "no profile 'x'"),
        (["profile", "set", "a b", "-n", TEST], "profile 'a b': a name has letters"),
        (["profile", "set", "a", "-n", "nowhere"], "is no address of a NameServer"),
        (["profile", "set", "a", "-n", TEST, "--credentials", "/missing"], "/missing cannot be read"),
        (["admin", "topicList", "--profile", "tset"], "no profile 'tset': did you mean test?"),
    ],
)
def test_wrong_profile_is_named(made: None, capsys: pytest.CaptureFixture[str], words: list[str], text: str) -> None:
    capsys.readouterr()
    assert run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (None, 0o640, "others may open it: chmod 600"),
        ("{", 0o600, "is no file of profiles"),
        ('{"current": "", "profiles": {"a": {"namesrvAddr": 1}}}', 0o600, "is no file of profiles"),
        ('{"current": "", "profiles": {"a": {"more": "1"}}}', 0o600, "is no file of profiles"),
        ('{"current": "", "profiles": []}', 0o600, "is no file of profiles"),
    ],
)
def test_file_that_cannot_be_used_is_named(
    made: None, file: Path, capsys: pytest.CaptureFixture[str], text: str | None, mode: int, why: str
) -> None:
    file.write_text(file.read_text() if text is None else text)
    file.chmod(mode)
    capsys.readouterr()
    assert run(["profile", "list"]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert str(file) in said

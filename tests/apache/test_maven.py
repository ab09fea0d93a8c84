"""Jars that are not available: fetching raises JarsNotFetchedError, and the tests that need them are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.apache.judge import ApacheStore
from tests.support import maven
from tests.support.maven import JarsNotFetchedError, fetch_jars


def test_jars_that_cannot_be_fetched_skip_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "mvn"
    command.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(maven, "cache_directory", lambda: tmp_path / "cache")
    monkeypatch.setattr(maven, "FETCH_SECONDS", 0.1)
    with pytest.raises(JarsNotFetchedError, match=r"some: mvn took longer than 0\.1 s"):
        fetch_jars("some", ["a:b:1"])
    monkeypatch.setattr(maven, "FETCH_SECONDS", 60)
    command.write_text("#!/bin/sh\necho no such artifact\nexit 1\n")
    with pytest.raises(JarsNotFetchedError, match="some cannot be fetched: no such artifact"):
        fetch_jars("some", ["a:b:1"])
    with pytest.raises(pytest.skip.Exception, match=r"no such artifact|no java and javac"):
        ApacheStore("5.3.3")
    command.write_text('#!/bin/sh\nmkdir lib\necho "$PWD" >> calls\n')
    assert fetch_jars("some", ["a:b:1"]) == fetch_jars("some", ["a:b:1"]) == tmp_path / "cache" / "some" / "lib"
    assert len((tmp_path / "cache" / "some" / "calls").read_text().splitlines()) == 1

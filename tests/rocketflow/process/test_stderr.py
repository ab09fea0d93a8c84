"""A job's lines reach the stderr of the process that submitted it, under every kind of redirection."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# like `rocketflow submit` around spark-submit; a shell joins the job's stderr to stdout, as the JVM does
PARENT = """
import os, subprocess, sys
from rocketflow.process.stderr import with_stderr
environment = with_stderr(os.environ)
print("parent begins", flush=True)
job = [sys.executable, "-c", sys.argv[1]]
subprocess.run(["sh", "-c", '"$@" 2>&1 | cat', "sh", *job], env=environment, check=True)
print("error: parent ends", file=sys.stderr, flush=True)
"""
JOB = """
import sys
from rocketflow.process.stderr import own_stderr
own_stderr()
for number in range(20):
    print(f"progress {number}", file=sys.stderr, flush=True)
    print(f"result {number}", flush=True)
"""
ERRORS = {*(f"progress {number}" for number in range(20)), "error: parent ends"}
PRINTED = {"parent begins", *(f"result {number}" for number in range(20))}


@pytest.mark.parametrize(
    ("redirection", "errors", "output"),
    [
        ("> log 2>&1", "log", "log"),
        (">> log 2>&1", "log", "log"),
        ("> out 2> log", "log", "out"),
        ("2> log | cat > out", "log", "out"),
        ("2>&1 | cat > log", "log", "log"),
        ("2> >(cat > log) > out; sleep 0.5", "log", "out"),
        ("> log 2> log", "log", "log"),
    ],
)
def test_all_lines_of_job_and_parent_are_written(tmp_path: Path, redirection: str, errors: str, output: str) -> None:
    (tmp_path / "log").write_text("")
    script = f'{{ echo shell begins; "$0" -c "$1" "$2"; echo shell ends; }} {redirection}'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for name in ("ROCKETFLOW_STDERR", "PYTHONUNBUFFERED"):  # (unbuffered, a line is two writes)
        environment.pop(name, None)
    subprocess.run(
        ["bash", "-c", script, sys.executable, PARENT, JOB], cwd=tmp_path, env=environment, check=True, timeout=60
    )
    in_errors = (tmp_path / errors).read_text().splitlines()
    in_output = (tmp_path / output).read_text().splitlines()
    if redirection != "> log 2> log":  # the file is opened twice: the shell's own lines have their own position
        assert {"shell begins", "shell ends"} <= set(in_output)
    if errors == output:
        assert set(in_output) >= ERRORS | PRINTED
    else:
        assert set(in_errors) == ERRORS
        assert set(in_output) >= PRINTED

"""A sample of the coverage-guided fuzzing of the kernel under the sanitizers, which `make fuzz` runs in full."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fuzz.targets import KERNEL_TARGETS
from tests.support.sanitized_kernel import sanitizer
from tests.support.trials import FULL, ROOT, environment

RUNS = 3_000
NO_FUZZER = 4


@pytest.mark.skipif(not FULL, reason="minutes under the sanitizers: make test-full runs it")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kernel_takes_any_bytes_without_a_fault() -> None:
    if sanitizer() is None:
        pytest.skip("needs gcc with its sanitizers")
    command = [sys.executable, "-m", "tests.fuzz", "--runs", str(RUNS), *(one.name for one in KERNEL_TARGETS)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode == NO_FUZZER:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

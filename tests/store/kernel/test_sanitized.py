"""The kernel's tests pass under AddressSanitizer and UBSan: nothing outside of a buffer, no undefined result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import FOLDER, MODULE
from tests.support.sanitized_kernel import sanitized_environment, sanitized_store, sanitizer
from tests.support.trials import LEVEL, ROOT

TESTS = (
    "tests/store/kernel",
    "tests/store/reading/test_sound_records.py",
    "tests/rocketflow/broker/test_sends_together.py",
    "tests/rocketflow/broker/test_ends_together.py",
)


@pytest.mark.skipif(LEVEL == "sample", reason="minutes under the sanitizers: RF_FAULTS=1 runs it")
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernel_has_no_fault_under_the_sanitizers(tmp_path: Path) -> None:
    library = sanitizer() or pytest.skip("needs gcc with its sanitizers")
    store, environment = sanitized_store(tmp_path), sanitized_environment(library)
    options = ("-n", "0", "-p", "no:cacheprovider", "-o", f"pythonpath={store} {ROOT}", f"--basetemp={tmp_path / 't'}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *TESTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    where = "import rocketflow_store.kernel as kernel; print(kernel.COMPILED.__file__)"
    path = {**environment, "PYTHONPATH": f"{store}"}
    named = subprocess.run([sys.executable, "-c", where], env=path, capture_output=True, text=True, check=True)
    assert named.stdout.strip() == str(store / Path(FOLDER).relative_to("store") / MODULE)

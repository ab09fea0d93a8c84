"""The kernel's tests pass under AddressSanitizer and UBSan: nothing outside of a buffer, no undefined result."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import FOLDER, MODULE, compile_kernel
from tests.support.trials import LEVEL, ROOT

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-U_FORTIFY_SOURCE")
TESTS = (
    "tests/store/kernel",
    "tests/store/reading/test_sound_records.py",
    "tests/rocketflow/broker/test_sends_together.py",
)


def sanitizer() -> str:
    """Return the runtime of the sanitizers. Skips the test where the compiler has none."""
    gcc = shutil.which("gcc") or pytest.skip("needs gcc")
    found = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    library = Path(found.stdout.strip())
    return str(library.resolve()) if library.is_absolute() else pytest.skip("gcc has no libasan")


@pytest.mark.skipif(LEVEL == "sample", reason="minutes under the sanitizers: RF_FAULTS=1 runs it")
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernel_has_no_fault_under_the_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, store = sanitizer(), tmp_path / "store"
    shutil.copytree(ROOT / "store", store, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("CC", "gcc")
    module = store / Path(FOLDER).relative_to("store") / MODULE
    module.unlink(missing_ok=True)
    compile_kernel(module.parent, module, *SANITIZED)
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("RF_FULL", "RF_FAULTS")},
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "ROCKETFLOW_REQUIRE_KERNEL": "1",
    }
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
    assert named.stdout.strip() == str(module)

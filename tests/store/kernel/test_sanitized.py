"""The kernel's tests pass under AddressSanitizer and UBSan: nothing outside of a buffer, no undefined result."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hatch_build import FOLDER, MODULE, compile_kernel
from tests.planted.planting import Tree
from tests.support.trials import LEVEL

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-U_FORTIFY_SOURCE")
TESTS = ("tests/store/kernel", "tests/store/reading/test_sound_records.py")


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
    library = sanitizer()
    tree = Tree(tmp_path / "tree")
    monkeypatch.setenv("CC", "gcc")
    compile_kernel(tree.path / FOLDER, tree.path / FOLDER / MODULE, *SANITIZED)
    monkeypatch.setenv("LD_PRELOAD", library)
    options = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1", "ROCKETFLOW_REQUIRE_KERNEL": "1"}
    deselected = "--deselect=tests/store/kernel/test_sanitized.py"
    done = tree.pytest("-n", "0", deselected, f"--basetemp={tmp_path / 't'}", *TESTS, limit=1700, **options)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]

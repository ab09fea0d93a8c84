"""A copy of the store whose kernel is compiled with AddressSanitizer and UBSan, and the environment that loads it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from unittest.mock import patch

from hatch_build import FOLDER, MODULE, compile_kernel
from tests.support.trials import ROOT

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-U_FORTIFY_SOURCE")


def sanitizer() -> Path | None:
    """Return the runtime of gcc's sanitizers, None without it."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    found = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    library = Path(found.stdout.strip())
    return library.resolve() if library.is_absolute() else None


def sanitized_store(home: Path, *options: str) -> Path:
    """Copy the store to `home` with a kernel compiled by gcc with the sanitizers and `options`; return its path."""
    store = home / "store"
    shutil.copytree(ROOT / "store", store, ignore=shutil.ignore_patterns("__pycache__", MODULE))
    folder = store / Path(FOLDER).relative_to("store")
    with patch.dict(os.environ, CC="gcc"):
        compile_kernel(folder, folder / MODULE, *SANITIZED, *options)
    return store


def sanitized_environment(library: Path) -> dict[str, str]:
    """Return the environment of a process that loads the kernel of `sanitized_store`."""
    return {
        **{name: value for name, value in os.environ.items() if name not in ("RF_FULL", "RF_FAULTS")},
        "LD_PRELOAD": str(library),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "ROCKETFLOW_REQUIRE_KERNEL": "1",
    }

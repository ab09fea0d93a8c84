"""The compiled kernel is loaded, switched off, required, and compiled where a compiler is."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatch_build import KernelNotCompiledError, compile_kernel
from rocketflow_store.kernel import COMPILED
from rocketflow_store.kernel.loading import INTERFACE

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = ROOT / "store" / "rocketflow_store" / "kernel"
ASK: Final = "from rocketflow_store.kernel import STATE; print(STATE.is_compiled, STATE.why)"
needs_kernel = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")


def ask(text: str = ASK, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_KERNEL")} | variables
    command = [sys.executable, "-c", text]
    return subprocess.run(command, env=environment, cwd=ROOT / "store", capture_output=True, text=True, check=False)


@needs_kernel
def test_kernel_of_this_tree_is_compiled_from_its_sources() -> None:
    assert COMPILED is not None
    assert COMPILED.INTERFACE == INTERFACE
    newest = max(path.stat().st_mtime for path in SOURCES.iterdir() if path.suffix in (".pyx", ".pxi", ".h"))
    assert (SOURCES / "_kernel.abi3.so").stat().st_mtime >= newest, "make setup compiles it again"


@needs_kernel
def test_kernel_is_switched_off_and_required() -> None:
    assert ask().stdout == "True \n"
    assert ask(ROCKETFLOW_REQUIRE_KERNEL="1").stdout == "True \n"
    assert ask(ROCKETFLOW_NO_KERNEL="1").stdout == "False ROCKETFLOW_NO_KERNEL is set: unset it\n"


@pytest.mark.parametrize(
    ("module", "why"),
    [("raise ImportError('no such file')", "it is not installed (no such file)"), ("INTERFACE = -1", "other sources")],
)
def test_missing_and_old_kernel_is_reported_or_an_error(tmp_path: Path, module: str, why: str) -> None:
    store = tmp_path / "rocketflow_store"
    shutil.copytree(SOURCES.parent / "kernel", store / "kernel", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (store / "__init__.py").touch()
    (store / "kernel" / "_kernel.py").write_text(module)
    text = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {ASK}"
    found = ask(text).stdout
    assert found.startswith("False ")
    assert why in found
    required = ask(text, ROCKETFLOW_REQUIRE_KERNEL="1")
    assert required.returncode == 1
    assert f"the compiled kernel is required (ROCKETFLOW_REQUIRE_KERNEL), but {found[6:-1]}" in required.stderr


def test_failing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, compiler = tmp_path / "sources", tmp_path / "tools" / "failing"
    sources.mkdir()
    (sources / "_kernel.pyx").write_text("INTERFACE = 0\n")
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(KernelNotCompiledError, match="failing fails"):
        compile_kernel(sources, tmp_path / "module.so")
    monkeypatch.setenv("CC", str(tmp_path / "absent"))
    with pytest.raises(KernelNotCompiledError, match="absent"):
        compile_kernel(sources, tmp_path / "module.so")
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelNotCompiledError, match="no C compiler"):
        compile_kernel(sources, tmp_path / "module.so")
    assert {one.name for one in tmp_path.iterdir()} == {"sources", "tools"}


@needs_kernel
@given(st.binary(max_size=300) | st.binary(min_size=1000, max_size=5000), st.integers(0, 20))
def test_crc_is_that_of_java(data: bytes, skipped: int) -> None:
    assert COMPILED is not None
    assert COMPILED.crc32(data) == zlib.crc32(data)
    assert COMPILED.crc32(memoryview(data)[skipped:]) == zlib.crc32(data[skipped:])


@needs_kernel
@pytest.mark.parametrize("folds", [0, 1, 2])
def test_crc_by_tables_and_by_instructions_is_the_same_at_every_size_and_alignment(folds: int) -> None:
    assert COMPILED is not None
    data = random.Random(5).randbytes(700)
    for begin in range(0, 17, 1 if folds else 8):
        for size in range(640):
            part = memoryview(data)[begin : begin + size]
            assert COMPILED.crc32(part, folds) == zlib.crc32(part), (begin, size)

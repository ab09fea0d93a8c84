"""Compiles the store's kernel where a C compiler is; without one the package is pure Python and says so.

`ROCKETFLOW_REQUIRE_KERNEL=1` makes a missing or failing compiler an error (releases, CI), `ROCKETFLOW_NO_KERNEL=1`
compiles nothing. `CC` names the compiler, `CFLAGS` more options for it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "store/rocketflow_store/kernel"
MODULE = "_kernel.abi3.so"
COMPILERS = ("cc", "gcc", "clang")
SOURCES = (".pyx", ".pxi", ".h")
OPTIONS = (
    *(
        "-O2",
        "-g0",
        "-fPIC",
        "-shared",
        "-fno-strict-aliasing",
        "-fvisibility=hidden",
        "-Werror=implicit-function-declaration",
        "-DPy_LIMITED_API=0x030B0000",
    ),
    *(
        "-fstack-protector-strong",
        "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=2",
        "-Wl,-z,relro,-z,now",
        "-Wl,--build-id=none",
    ),
)


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the extension module into the wheel, or beside its sources for an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of a wheel are gathered."""
        if self.target_name != "wheel":
            return
        self._work = tempfile.mkdtemp(prefix="rocketflow-kernel-")
        module = Path(self._work, MODULE)
        why = compile_unless_off(Path(self.root, FOLDER), module)
        if why:
            self.app.display_warning(f"RocketFlow is installed without its compiled kernel: {why}")
        if version == "editable":
            put_beside_sources(module)
        elif not why:
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["force_include"][str(module)] = f"rocketflow_store/kernel/{MODULE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        if self.target_name == "wheel":
            shutil.rmtree(self._work, ignore_errors=True)


def put_beside_sources(module: Path) -> None:
    """Replace the module of this checkout at once, as other processes may load it; without a new one remove it."""
    target = Path(__file__).parent / FOLDER / MODULE
    if not module.exists():
        target.unlink(missing_ok=True)
        return
    shutil.copy(module, target.with_suffix(".new"))
    target.with_suffix(".new").replace(target)


class KernelNotCompiledError(Exception):
    """There is no compiler, or it fails."""


def compile_unless_off(folder: Path, target: Path) -> str:
    """Compile the sources in `folder` to `target`; return why that was not done, "" if it was.

    Raises KernelNotCompiledError if the kernel is required.
    """
    required = os.environ.get("ROCKETFLOW_REQUIRE_KERNEL", "") not in ("", "0")
    if os.environ.get("ROCKETFLOW_NO_KERNEL", "") not in ("", "0") and not required:
        return "ROCKETFLOW_NO_KERNEL is set"
    try:
        compile_kernel(folder, target)
    except KernelNotCompiledError as error:
        if required:
            raise
        return str(error)
    return ""


def compile_kernel(folder: Path, target: Path, *options: str) -> None:
    """Compile the sources in `folder` to `target`, to the same bytes in each folder. Raises KernelNotCompiledError."""
    if find_spec("Cython") is None:
        raise KernelNotCompiledError("Cython is not installed")
    compiler = shlex.split(os.environ.get("CC", "")) or [one for one in COMPILERS if shutil.which(one)][:1]
    if not compiler:
        raise KernelNotCompiledError(f"no C compiler ({', '.join(COMPILERS)}) is on PATH, and CC is not set")
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        raise KernelNotCompiledError(f"{include} has no Python.h: install the headers of Python (python3-dev)")
    with tempfile.TemporaryDirectory() as work:
        for source in folder.iterdir():
            if source.suffix in SOURCES:
                shutil.copy(source, work)
        name = f"--module-name={FOLDER.removeprefix('store/').replace('/', '.')}._kernel"
        _run([sys.executable, "-m", "cython", name, "_kernel.pyx", "-o", "_kernel.c"], work)
        extra = shlex.split(os.environ.get("CFLAGS", ""))
        _run([*compiler, *OPTIONS, *extra, *options, f"-I{include}", "-I.", "_kernel.c", "-o", MODULE], work)
        shutil.copy(Path(work, MODULE), target)


def _run(command: list[str], folder: str) -> None:
    try:
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise KernelNotCompiledError(f"{command[0]}: {error}") from None
    if made.returncode:
        raise KernelNotCompiledError(f"{command[0]} fails: {(made.stderr or made.stdout).strip()[-2000:]}")


def main() -> None:
    """Compile the kernel of this checkout and say how that went (`make setup`)."""
    with tempfile.TemporaryDirectory() as work:
        module = Path(work, MODULE)
        try:
            why = compile_unless_off(Path(__file__).parent / FOLDER, module)
        except KernelNotCompiledError as error:
            sys.exit(f"the kernel is required (ROCKETFLOW_REQUIRE_KERNEL), but not compiled: {error}")
        put_beside_sources(module)
    print(f"the kernel is not compiled, RocketFlow runs as pure Python: {why}" if why else "the kernel is compiled")


if __name__ == "__main__":
    main()

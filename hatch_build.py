"""Compiles the store's kernel where a C compiler is; without one the package is pure Python and says so.

`ROCKETFLOW_REQUIRE_KERNEL=1` makes a missing or failing compiler an error (releases, CI), `ROCKETFLOW_NO_KERNEL=1`
compiles nothing. `CC` names the compiler, `CFLAGS` more options for it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "store/rocketflow_store/kernel"
MODULE = "_kernel.abi3.so"
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = (
    *("-O2", "-g0", "-fPIC", "-shared", "-fno-strict-aliasing", "-fvisibility=hidden", "-DPy_LIMITED_API=0x030B0000"),
    *(
        "-fstack-protector-strong",
        "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=2",
        "-Wl,-z,relro,-z,now",
        "-Wl,--build-id=none",
    ),
)


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the extension module beside its sources, and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of a wheel are gathered."""
        if self.target_name != "wheel":
            return
        folder = Path(self.root, FOLDER)
        (folder / MODULE).unlink(missing_ok=True)
        required = os.environ.get("ROCKETFLOW_REQUIRE_KERNEL", "") not in ("", "0")
        if os.environ.get("ROCKETFLOW_NO_KERNEL", "") not in ("", "0") and not required:
            return
        try:
            compile_kernel(folder, folder / MODULE)
        except KernelNotCompiledError as error:
            if required:
                raise
            self.app.display_warning(f"RocketFlow is installed without its compiled kernel: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append(f"{FOLDER}/{MODULE}")


class KernelNotCompiledError(Exception):
    """There is no compiler, or it fails."""


def compile_kernel(folder: Path, target: Path, *options: str) -> None:
    """Compile the sources in `folder` to `target`. Raises KernelNotCompiledError."""
    try:
        from Cython.Compiler.Main import CompilationOptions
        from Cython.Compiler.Main import compile as translate
    except ImportError as error:
        raise KernelNotCompiledError(f"Cython is missing ({error})") from None
    compiler = shlex.split(os.environ.get("CC", "")) or [one for one in COMPILERS if shutil.which(one)][:1]
    if not compiler:
        raise KernelNotCompiledError(f"no C compiler ({', '.join(COMPILERS)}) is on PATH, and CC is not set")
    with tempfile.TemporaryDirectory() as work:
        for source in [*folder.glob("*.px[di]"), *folder.glob("*.pyx"), *folder.glob("*.h")]:
            shutil.copy(source, work)
        code = Path(work, "_kernel.c")
        chosen = CompilationOptions(output_file=str(code), include_path=[work], language_level=3)
        done = translate(str(Path(work, "_kernel.pyx")), chosen, full_module_name="rocketflow_store.kernel._kernel")
        if done.num_errors:
            raise KernelNotCompiledError("Cython refuses the sources")
        include = sysconfig.get_path("include")
        if not Path(include, "Python.h").exists():
            raise KernelNotCompiledError(f"{include} has no Python.h: install the headers of Python (python3-dev)")
        extra = shlex.split(os.environ.get("CFLAGS", ""))
        command = [*compiler, *OPTIONS, *extra, *options, f"-I{include}", f"-I{work}", str(code), "-o", str(target)]
        try:
            made = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise KernelNotCompiledError(f"{compiler[0]}: {error}") from None
        if made.returncode:
            raise KernelNotCompiledError(f"{shlex.join(compiler)} fails: {made.stderr.strip()[-2000:]}")

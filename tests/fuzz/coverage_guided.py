"""One target under libFuzzer (atheris): `python -m tests.fuzz.coverage_guided TARGET [libFuzzer's arguments]`.

A target of the kernel is guided by the branches of a kernel compiled with `kernel_coverage.c`, another one by Python's.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import nullcontext
from importlib import import_module

import atheris

IS_KERNEL = sys.argv[1].startswith("kernel-")
with nullcontext() if IS_KERNEL else atheris.instrument_imports(include=["rocketflow_store", "rocketflow.remoting"]):
    from rocketflow_store.kernel import COMPILED
    from tests.fuzz.targets import TARGETS

_CMP = ("cmp1", "cmp2", "cmp4", "cmp8")
_FUNCTIONS = (
    *("8bit_counters_init", "pcs_init"),
    *(f"trace_{kind}{one}" for kind in ("", "const_") for one in _CMP),
    "trace_switch",
)
"""What `kernel_coverage.c` takes, in its order."""


def show_kernel() -> None:
    """Give libFuzzer the counters of the kernel."""
    assert COMPILED is not None
    fuzzer = ctypes.CDLL(import_module("atheris.core_with_libfuzzer").__file__)
    kernel = ctypes.CDLL(COMPILED.__file__)
    functions = [fuzzer[f"__sanitizer_cov_{name}"] for name in _FUNCTIONS]
    kernel.kernel_coverage(
        (ctypes.c_void_p * len(functions))(*(ctypes.cast(one, ctypes.c_void_p) for one in functions))
    )


def main() -> None:
    """Run libFuzzer until it ends, with an error if the target raises an exception that it may not raise."""
    target = TARGETS[sys.argv.pop(1)]
    assert target.kernel is IS_KERNEL
    atheris.Setup(sys.argv, target.run, enable_python_coverage=not IS_KERNEL)
    if IS_KERNEL:
        show_kernel()
    atheris.Fuzz()


if __name__ == "__main__":
    main()

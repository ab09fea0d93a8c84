"""The store's ground floor needs the standard library alone, so that clients can use it."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import importlib
import pkgutil
import sys

OWN = {*sys.stdlib_module_names, "rocketflow_store"}


class StandardLibraryAlone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in OWN:
            raise ModuleNotFoundError(f"{name} is not in the standard library", name=name)
        return None


sys.meta_path.insert(0, StandardLibraryAlone())
for package in ("rocketflow_store.model", "rocketflow_store.format"):
    for one in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{one.name}")

from rocketflow_store.model.java_compat import crc32

assert crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
print(sorted({one.split(".")[1] for one in sys.modules if one.startswith("rocketflow_store.")}))
"""


def test_model_and_format_need_the_standard_library_alone() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "['format', 'kernel', 'model']\n"), done.stderr

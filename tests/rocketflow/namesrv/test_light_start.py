"""A NameServer starts without the packages that only a store needs."""

from __future__ import annotations

import subprocess
import sys


def test_name_server_needs_neither_numpy_nor_pyarrow() -> None:
    script = (
        "import sys, rocketflow.servers, rocketflow.namesrv.service;"
        "print(sorted({'numpy', 'pyarrow', 'rocketflow_store.engine'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

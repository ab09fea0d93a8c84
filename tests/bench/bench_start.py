"""Starts that users wait for: importing the client, and the servers of the pytest fixture `rocketmq`.

Each runs several times in turn with the others, in a new process or with a new directory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from rocketflow.testing import start_cluster
from tests.bench.figures import Figure

RUNS: Final = 9
_TIMED: Final = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"
_IMPORT: Final = "from rocketflow.client import Producer, PullConsumer, PushConsumer, TransactionProducer"


def run(scale: float) -> Iterator[Figure]:
    imports, clusters = [], []
    for _ in range(max(3, round(RUNS * scale))):
        timed = [sys.executable, "-c", _TIMED.format(_IMPORT)]
        imports.append(float(subprocess.run(timed, capture_output=True, check=True, text=True).stdout))
        began = time.perf_counter()
        with start_cluster():
            clusters.append(time.perf_counter() - began)
    yield Figure("import of four classes of rocketflow.client, new process", "s", tuple(imports))
    yield Figure("start_cluster (the fixture rocketmq)", "s", tuple(clusters))

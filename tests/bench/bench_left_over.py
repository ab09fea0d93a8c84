"""The share of requests that the compiled kernel leaves over to Python, in the traffic of RocketMQ's Java clients.

Each kind of send goes to a topic of eight queues, whose first messages are left over as well. The broker's metrics say
how many requests it got, and how many of them the kernel took.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocketflow_store.kernel import COMPILED
from tests.bench.figures import Figure
from tests.support.http_get import get
from tests.support.java_programs import FLAGS, broker_jars
from tests.support.maven import JarsNotFetchedError, compile_java, java_and_javac
from tests.support.ports import free_port
from tests.support.servers import running, wait_for_a_broker
from tests.support.trials import COMMAND_LINE

VERSIONS: Final = "4.9.7", "5.3.3"
KINDS: Final = "sync", "async", "oneway", "compressed", "ordered", "delayed", "batch", "transaction"
COUNT: Final = 5_000
CODES: Final = "send_message", "send_message_v2", "send_batch_message", "end_transaction"
_SOURCE: Final = Path(__file__).parent / "java" / "UsualSends.java"
_ALL, _TAKEN = "rocketmq_rpc_latency_count", "rocketflow_requests_together_total"
_COUNT: Final = re.compile(rf"^({_ALL}|{_TAKEN})\{{(.*)\}} (\S+)$", re.MULTILINE)
_CODE: Final = re.compile(r'request_code="(\w+)"')


def run(scale: float) -> Iterator[Figure]:
    if COMPILED is None:
        print("nothing is measured: this machine has no compiled kernel")
        return
    count = max(100, int(COUNT * scale))
    for version in VERSIONS:
        try:
            lib = broker_jars(version)
            java = java_and_javac()[0]
        except JarsNotFetchedError as error:
            print(f"the client {version} is not measured: {error}")
            continue
        classes = compile_java(_SOURCE, _SOURCE.read_text(), lib)
        with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as folder:
            program = [java, *FLAGS, f"-Duser.home={folder}", "-cp", f"{lib}/*:{classes}", "UsualSends"]
            yield from _shares(f"Java {version}", program, Path(folder), count)


def _shares(client: str, program: list[str], home: Path, count: int) -> Iterator[Figure]:
    port = free_port()
    settings = (f"storePathRootDir={home}/store", "metricsExporterType=PROM", f"metricsPromExporterPort={port}")
    arguments = [part for one in settings for part in ("--set", one)]
    all_requests: Counter[str] = Counter()
    with (
        running("namesrv", home / "names", "--set", f"kvConfigPath={home}/kv.json") as names,
        running("broker", home / "broker", "-n", names.address, *arguments),
    ):
        wait_for_a_broker(names.address)
        topic = ("updateTopic", "-n", names.address, "-c", "DefaultCluster", "-t", "usual")
        subprocess.run([sys.executable, "-c", COMMAND_LINE, "admin", *topic], check=True, stdout=subprocess.DEVNULL)
        before = _counts(port)
        for kind in KINDS:
            subprocess.run([*program, names.address, kind, str(count)], check=True, stdout=subprocess.DEVNULL)
            after = _counts(port)
            found = after - before
            yield Figure(f"{client}, {kind}: requests that the kernel leaves over", "%", (_share(found),))
            all_requests += found
            before = after
    yield Figure(f"{client}, all kinds: requests that the kernel leaves over", "%", (_share(all_requests),))


def _share(found: Counter[str]) -> float:
    return 100 * (1 - found[_TAKEN] / found[_ALL])


def _counts(port: int) -> Counter[str]:
    """Return how many sends and ends of transactions a broker got, and how many of them the kernel took."""
    found: Counter[str] = Counter()
    for name, labels, value in _COUNT.findall(get(port, "/metrics")[1]):
        code = _CODE.search(labels)
        if code is not None and code[1] in CODES:
            found[name] += int(float(value))
    return found

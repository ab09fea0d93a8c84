"""The clients work where only RocketFlow's own files and the libraries of the extra `client` are installed.

Of the store they load its ground floor alone, through three doors.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import Final

from rocketflow.aio.loop import run
from tests.support.client_cluster import ClientCluster
from tests.support.trials import ROOT, environment

_EXTRAS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
_PROGRAM: Final = """
import sys
import sysconfig
from importlib.machinery import PathFinder

ALLOWED, NAMES, TOPIC = sys.argv[1].split(","), sys.argv[2], sys.argv[3]
INSTALLED = sysconfig.get_paths()["purelib"]


class OnlyAllowed:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        found = PathFinder.find_spec(top)
        is_installed = found is not None and INSTALLED in str(found.origin)
        if is_installed and top not in ALLOWED and top != "rocketflow_store":
            raise ModuleNotFoundError(f"{name} is not part of a slim install", name=name)
        return None


sys.meta_path.insert(0, OnlyAllowed())

from rocketflow.client import ConsumeFrom, Message, ProducerOptions, PullOptions, PushOptions
from rocketflow.client.sync import Producer, PullConsumer, PushConsumer

with Producer(ProducerOptions(name_servers=NAMES, group="slim")) as producer:
    producer.send(Message(TOPIC, b"x" * 10_000, tags="a"))
with PullConsumer(PullOptions(name_servers=NAMES, group="slim-pull", start=ConsumeFrom.FIRST)) as consumer:
    consumer.subscribe(TOPIC)
    print([len(one.body) for one in consumer.poll(timeout_s=60)])
assert not {"pyspark", "pyarrow", "numpy", "isal"} & sys.modules.keys()
loaded = {one.removeprefix("rocketflow_store.") for one in sys.modules if one.startswith("rocketflow_store.")}
floor = {one for one in loaded if one.partition(".")[0] in ("model", "format", "tables", "kernel")}
doors = {"spi", *(f"spi.{one}" for one in ("ids", "messages", "names", "setting_rows", "table_rows"))}
assert loaded - floor == doors, loaded
"""


def test_clients_work_without_spark_and_the_packages_of_the_store(cluster: ClientCluster) -> None:
    allowed = [one.partition(">")[0] for one in _EXTRAS["client"]]
    assert "rocketflow[store,client]" in _EXTRAS["broker"]
    given = (",".join(allowed), cluster.names.address, run(cluster.new_topic()))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *given], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[10000]\n"), done.stderr

"""Requests of a broker: each code is declared once, and a running broker serves what is declared."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from pathlib import Path

import rocketflow.broker
from rocketflow.access.served import rows_of
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.codes import RequestCode, ResponseCode
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.processed_codes import BROKER


def test_every_code_is_declared_once() -> None:
    found = pkgutil.walk_packages(rocketflow.broker.__path__, "rocketflow.broker.")
    modules = [importlib.import_module(one.name) for one in found]
    kinds = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    counts = Counter(code for kind in kinds for code in declared(kind))
    assert counts.keys() == BROKER.keys()
    assert [code for code, count in counts.items() if count > 1] == []


def declared(kind: type) -> list[int]:
    """Return the codes that the methods of a class declare, each as often as it is declared."""
    return [code for one in vars(kind).values() for code in rows_of(type("One", (), {"method": one}))]


def test_a_running_broker_serves_the_requests_that_are_declared_and_no_others(tmp_path: Path) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})

    async def main() -> set[int]:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()
        served = set()
        try:
            for code in RequestCode:
                answer = await peers.request(settings.broker_address, code, timeout_s=60)
                if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    served.add(code)
        finally:
            await peers.close()
            await broker.stop()
        return served

    assert run(main()) == BROKER.keys()

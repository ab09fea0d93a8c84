"""Figures in Prometheus' text format.

The loop's thread collects plain values, which is fast; `render` makes the text of them in another thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from rocketflow.aio.histogram import Histogram
from rocketflow.aio.rpc_latency import RpcLatency
from rocketflow.remoting.codes import RequestCode, ResponseCode

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

Values = Sequence[str]
"""Values of the labels of one series."""


class Exposition(Collector):
    """Figures to export; all series have the labels `common`."""

    def __init__(self, **common: str) -> None:
        self._common = common
        self._families: list[tuple[str, str, str, Sequence[str], list[tuple[Values, float | Histogram]]]] = []

    def gauge(self, name: str, text: str, rows: Iterable[tuple[Values, float]], labels: Sequence[str] = ()) -> None:
        """Add a figure that rises and falls."""
        self._families.append(("gauge", name, text, labels, list(rows)))

    def counter(self, name: str, text: str, rows: Iterable[tuple[Values, float]], labels: Sequence[str] = ()) -> None:
        """Add a figure that only rises; `name` ends with _total."""
        self._families.append(("counter", name, text, labels, list(rows)))

    def histogram(
        self, name: str, text: str, rows: Iterable[tuple[Values, Histogram]], labels: Sequence[str] = ()
    ) -> None:
        """Add histograms, as they are now."""
        self._families.append(("histogram", name, text, labels, [(values, one.copy()) for values, one in rows]))

    def rpc_latency(self, latency: RpcLatency) -> None:
        """Add the times of requests under RocketMQ's name and labels, and how many of them the kernel took."""
        labels = ("protocol_type", "request_code", "response_code", "is_long_polling", "result")
        rows = [
            (
                (
                    "remoting",
                    _name(RequestCode, kind.code),
                    _name(ResponseCode, kind.response_code),
                    str(kind.was_held).lower(),
                    kind.result,
                ),
                one,
            )
            for kind, one in latency.by_kind.items()
        ]
        self.histogram("rocketmq_rpc_latency", "Time from a request to its answer (ms)", rows, labels)
        together = [((_name(RequestCode, code),), count) for code, count in latency.together.items()]
        text = "Requests that the compiled kernel took before they were decoded"
        self.counter("rocketflow_requests_together_total", text, together, ("request_code",))

    def collect(self) -> Iterable[Metric]:
        """Yield the figures as Prometheus' library takes them."""
        common = tuple(self._common.values())
        for kind, name, text, labels, rows in self._families:
            names = (*self._common, *labels)
            if kind == "histogram":
                histogram = HistogramMetricFamily(name, text, labels=names)
                for values, one in rows:
                    assert isinstance(one, Histogram)
                    histogram.add_metric((*common, *values), _buckets(one), one.total)
                yield histogram
            else:
                family = (GaugeMetricFamily if kind == "gauge" else CounterMetricFamily)(name, text, labels=names)
                for values, one in rows:
                    assert not isinstance(one, Histogram)
                    family.add_metric((*common, *values), one)
                yield family

    def render(self) -> bytes:
        """Return the text; takes milliseconds for thousands of series."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


def _buckets(one: Histogram) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    reached = 0
    for bound, count in zip((*(str(float(bound)) for bound in one.bounds), "+Inf"), one.counts, strict=True):
        reached += count
        found.append((bound, reached))
    return found


def _name(codes: type[IntEnum], code: int) -> str:
    try:
        return codes(code).name.lower()
    except ValueError:
        return str(code)

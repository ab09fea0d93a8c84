"""Properties of delivered delayed messages, when they are copied to another topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.spi.requeue import DELIVERED

if TYPE_CHECKING:
    from pyspark.sql import Column


def without_delays(properties: Column) -> Column:
    """Return a column of properties without those of a past delay, so that the copies are not delayed again.

    A filter copies every map, which costs as much as parsing the body; so maps without such properties are kept.
    """
    from pyspark.sql import functions as F  # noqa: N812

    delayed = F.arrays_overlap(F.map_keys(properties), F.array(*map(F.lit, DELIVERED)))
    return F.when(delayed, F.map_filter(properties, lambda name, _: ~name.isin(*DELIVERED))).otherwise(properties)

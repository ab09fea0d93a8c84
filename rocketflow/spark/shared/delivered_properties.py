"""Properties of messages that were delayed, as they go on to another topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.spi.names import DELIVERED

if TYPE_CHECKING:
    from pyspark.sql import Column


def without_delays(properties: Column) -> Column:
    """A column of properties without what a delivered message still says of its delay: it is not to wait again.

    A filter makes every map anew, which costs as much as parsing the body: most messages have nothing to leave out.
    """
    from pyspark.sql import functions as F  # noqa: N812

    says = F.arrays_overlap(F.map_keys(properties), F.array(*map(F.lit, DELIVERED)))
    return F.when(says, F.map_filter(properties, lambda name, _: ~name.isin(*DELIVERED))).otherwise(properties)

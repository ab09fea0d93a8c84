"""Units of records that the log does not have anymore: they show how far their queue went.

A unit whose tags code says that its message is lost counts as well: an earlier recovery or rebuild wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.views.queues.batch_consume_queue import written_batches
from rocketflow_store.views.queues.consume_queue import lost, pre_blank, written

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.views.queues.claimed_places import DamagedBytes

    Units = npt.NDArray[np.void]


def end_of_lost(units: Units, damage: DamagedBytes) -> int:
    """Return the number of units up to the last one whose message is lost; 0 without any."""
    there = np.flatnonzero(written(units) & ~pre_blank(units) & (damage.hold(units["phy_offset"]) | lost(units)))
    return int(there[-1]) + 1 if len(there) else 0


def end_of_lost_batches(units: Units, damage: DamagedBytes) -> int:
    """Return the queue offset after the last message of the units whose messages are lost; 0 without any."""
    there = units[written_batches(units) & (damage.hold(units["phy_offset"]) | lost(units))]
    return int((there["msg_base_offset"].astype(np.int64) + there["batch_size"]).max(initial=0))

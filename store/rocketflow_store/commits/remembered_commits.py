"""The last commits of sinks whose envelopes retention removed from the log: `rocketflow/sinks.json`.

A sink without commits for longer than `fileReservedTime` must still know its last batch, or a replay of that batch
would be stored a second time. The envelope is copied before the log file that holds it is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.metadata.native.commit_envelope import (
    CommitEnvelope,
    envelope_of,
)
from rocketflow_store.metadata.native.remembered_envelopes import add_envelopes, read_envelopes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.model.message import ReceivedMessage

_LAST_OF_A_TAG: Final = 64


def remembered_commit(paths: StorePaths, sink_id: str) -> CommitEnvelope | None:
    """Return the last commit of a sink whose envelopes are no longer in the log."""
    return read_envelopes(paths.sinks).get(sink_id)


def remembered_sinks(paths: StorePaths) -> set[str]:
    """Return the ids of sinks whose last commit retention removed from the log."""
    return set(read_envelopes(paths.sinks))


def remember_commits(
    paths: StorePaths,
    units: npt.NDArray[np.void],
    look: Callable[[int], ReceivedMessage | None],
    min_phy_offset: int,
) -> None:
    """Keep the newest envelope of every sink among those before `min_phy_offset`, which are about to be deleted.

    `units` are those of the commit topic's queue; `look` returns the message at a physical offset.
    """
    deleted = units[units["phy_offset"] < min_phy_offset]
    newest: dict[str, CommitEnvelope] = {}
    for tags_code in np.unique(deleted["tags_code"]).tolist():
        of_tag = deleted["phy_offset"][deleted["tags_code"] == tags_code][-_LAST_OF_A_TAG:]
        for phy_offset in of_tag[::-1].tolist():
            message = look(phy_offset)
            envelope = envelope_of(message) if message is not None else None
            if envelope is not None:
                newest.setdefault(envelope.sink_id, envelope)
    if newest:
        add_envelopes(paths.sinks, newest)

"""Columns of a pass: what parsed, judged and routed rows have, by name."""

from __future__ import annotations

from typing import Final

MESSAGE: Final = "__rf_message"
"""The struct of the source's columns, all but `properties`."""
PROPERTIES: Final = "__rf_properties"
"""The message's own, null where they are not read; of routed rows what they go on with."""
WELL_FORMED: Final = "__rf_ok"
CARRIED: Final = (MESSAGE, PROPERTIES, WELL_FORMED)
"""What parsed rows have besides the suite's columns."""
HIDDEN: Final = frozenset({"body", "properties"})
"""Columns of the source that a suite does not see."""

BITS: Final = 62
MASK: Final = "__rf_mask"
QUEUE: Final = "__rf_queue"
"""Where a row is from: its topic's number << 32 | its queue id."""
OFFSET: Final = "__rf_offset"
OBSERVED: Final = "__rf_observed"
BAD: Final = "__rf_bad"
"""Whether the row is quarantined."""
NAMES: Final = "__rf_names"
VALUES: Final = "__rf_values"
"""`PROPERTIES` as tasks are given it: of a map Spark's Arrow writer asks for its parts after every row."""
SOURCE_COLUMNS: Final = ("body", "topic", "queueId", "queueOffset", "msgId", "tags", "keys", "flag", "bornTimestamp")
"""What the pass reads of a message; `properties` too where they go on."""
PASSED: Final = ("body", "tags", "keys", "flag", "bornTimestamp")
"""What goes on of it as it is."""

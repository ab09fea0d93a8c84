"""Columns of a pass: the names of those of parsed, judged and routed rows."""

from __future__ import annotations

from typing import Final

MESSAGE: Final = "__rf_message"
"""The struct of the source's columns, all but `properties`."""
PROPERTIES: Final = "__rf_properties"
"""The message's own properties, null if they are not read; of routed rows the properties to write."""
WELL_FORMED: Final = "__rf_ok"
CARRIED: Final = (MESSAGE, PROPERTIES, WELL_FORMED)
"""Columns of parsed rows besides the suite's columns."""
BODY_ERROR: Final = "bodyError"
"""Why a body cannot be decoded; the source has it if such messages are quarantined (`onBadBody=quarantine`)."""
HIDDEN: Final = frozenset({"body", "properties", BODY_ERROR})
"""Columns of the source that a suite does not see."""

BITS: Final = 62
MASK: Final = "__rf_mask"
QUEUE: Final = "__rf_queue"
"""The origin of a row: its topic's number << 32 | its queue id."""
OFFSET: Final = "__rf_offset"
OBSERVED: Final = "__rf_observed"
BAD: Final = "__rf_bad"
"""True if the row is quarantined."""
NAMES: Final = "__rf_names"
VALUES: Final = "__rf_values"
"""`PROPERTIES` as two lists, in the tasks' input: a map costs Spark's Arrow writer more after every row."""
SOURCE_COLUMNS: Final = ("body", "topic", "queueId", "queueOffset", "msgId", "tags", "keys", "flag", "bornTimestamp")
"""Columns that the pass reads of a message; also `properties` if they are copied."""
PASSED: Final = ("body", "tags", "keys", "flag", "bornTimestamp")
"""Columns that are copied unchanged."""

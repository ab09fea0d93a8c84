"""`config/lmqConsumerOffset.json`: a broker with `enableLmq` keeps it in place of `consumerOffset.json`.

Groups whose name begins with %LMQ% have one offset for each LMQ (light message queue), in a separate table.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rocketflow_store.files.json_fields import object_field, offset_field
from rocketflow_store.metadata.config_files.consumer_offsets import SEPARATOR, ConsumerOffsetsFile, topic_and_group
from rocketflow_store.model.topic_names import LMQ_PREFIX


class LmqConsumerOffsetsFile(ConsumerOffsetsFile):
    """A `ConsumerOffsetsFile` in which the offsets of LMQ groups have queue id 0."""

    NAME: ClassVar[str] = "lmqConsumerOffset.json"

    def _adopt(self, document: dict[str, Any]) -> None:
        lmqs = object_field(document, "lmqOffsetTable")
        found = {topic_and_group(key, "lmqOffsetTable"): {0: offset_field(lmqs, key)} for key in lmqs}
        super()._adopt(document)
        self._offsets |= found

    def members(self) -> dict[str, Any]:
        members = super().members()
        lmqs = {
            f"{topic}{SEPARATOR}{group}": offsets[0]
            for (topic, group), offsets in self._offsets.items()
            if group.startswith(LMQ_PREFIX) and offsets.keys() == {0}
        }
        members["groupTopicMap"] = {
            group: topics for group, topics in members["groupTopicMap"].items() if not group.startswith(LMQ_PREFIX)
        }
        members["offsetTable"] = {key: value for key, value in members["offsetTable"].items() if key not in lmqs}
        return {**members, "lmqOffsetTable": lmqs}

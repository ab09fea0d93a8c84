"""`config/delayOffset.json`: the delivery position of each delay level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rocketflow_store.files.json_fields import object_field, offset_map
from rocketflow_store.metadata.config_files.json_config_file import JsonConfigFile
from rocketflow_store.model.errors import StoreConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


class DelayOffsetsFile(JsonConfigFile):
    """Next queue offset by delay level, 1 upwards; the queue of a level in the schedule topic is level - 1."""

    NAME: ClassVar[str] = "delayOffset.json"
    _offsets: dict[int, int]

    def offsets(self) -> dict[int, int]:
        with self._guard:
            self._refresh()
            return dict(self._offsets)

    def get(self, level: int) -> int | None:
        return self.offsets().get(level)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Set the next offsets of the given levels; other levels are unchanged. Durable on return."""
        for level, offset in offsets.items():
            if not (1 <= level < 1 << 31 and 0 <= offset < 1 << 63):
                raise StoreConfigError("delayOffset", {level: offset}, "levels start at 1, offsets at 0")
        with self._guard:
            self._refresh()
            merged = {**self._offsets, **offsets}
            if merged == self._offsets:
                return
            self._offsets = merged
            self._persist()

    def _adopt(self, document: dict[str, Any]) -> None:
        self._offsets = offset_map(object_field(document, "offsetTable"), "offsetTable")

    def members(self) -> dict[str, Any]:
        return {"offsetTable": {str(level): offset for level, offset in sorted(self._offsets.items())}}

"""A record that has everything except its place: its bytes, its queue, and the input of dispatch.

The write path fills in the place (`format.record.place_record`); the properties are not decoded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketflow_store.format.record import RecordFields, encode_unplaced
from rocketflow_store.model.java_compat import TAG_KEY_PREFIX, java_text, string_hash
from rocketflow_store.model.property_names import PROPERTY_DELAY, PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from rocketflow_store.model.system_flags import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.records.decoding.dispatch_rows import deliver_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.settings.store_config import StoreConfig


class UnplacedRecord(NamedTuple):
    """A record without its place: see `format.record.UnplacedBytes`.

    `queue_id` is -1 if it gets no ConsumeQueue unit (prepared, rolled back); `tags_code` is that of its unit, `keys`
    are its index keys as `topic#key`, `batch_num` is the number of queue offsets it takes, `lmq` has (name, queue
    offset) of the LMQs that get a unit too.
    """

    before: bytes
    rest: bytes
    size: int
    topic: str
    queue_id: int
    tags_code: int
    keys: list[str]
    batch_num: int
    lmq: tuple[tuple[str, int], ...] = ()


class RecordRules(NamedTuple):
    """Settings that apply to every record."""

    delay_levels_ms: tuple[int, ...]
    tag_entries: bool
    """True if the index names the TAGS of messages."""
    property_crc: bool
    """True if a record ends with a CRC of itself."""

    @classmethod
    def of(cls, config: StoreConfig) -> RecordRules:
        """Return the rules of `config`, whose profile must be set."""
        return cls(config.delay_levels_ms, config.tag_entries, config.append_prop_crc)


def unplaced_record(
    fields: RecordFields,
    properties: Mapping[str, str],
    now_ms: int,
    rules: RecordRules,
    batch_num: int = 1,
    lmq: tuple[tuple[str, int], ...] = (),
) -> UnplacedRecord:
    """Return the record of `fields`, whose property string is that of `properties`, with store time `now_ms`."""
    topic, kind, get = fields.topic.decode(), fields.sys_flag & TRANSACTION_MASK, properties.get
    tags = get(PROPERTY_TAGS)
    tags_code = string_hash(tags) if tags else 0
    if topic == SCHEDULE_TOPIC:
        tags_code = deliver_time(get(PROPERTY_DELAY), now_ms, rules.delay_levels_ms, tags_code)
    keys: list[str] = []
    if kind != TRANSACTION_ROLLBACK:
        keys = index_keys(topic, get(PROPERTY_UNIQ_KEY), get(PROPERTY_KEYS), tags if rules.tag_entries else None)
    queue_id = fields.queue_id if kind in (0, TRANSACTION_COMMIT) else -1
    record = encode_unplaced(fields, now_ms, rules.property_crc)
    return UnplacedRecord(*record, topic, queue_id, tags_code, keys, batch_num, lmq)


_UNIQ_KEY, _TAGS, _KEYS = (f"\x02{name}\x01".encode() for name in (PROPERTY_UNIQ_KEY, PROPERTY_TAGS, PROPERTY_KEYS))


def dispatch_keys(raw: bytes, topic: str, tag_entries: bool) -> tuple[str, list[str]]:
    """Return the TAGS of a property string, and the index keys of its record as `topic#key`.

    Of duplicate properties the last one counts: see `format.properties.decode_properties`.
    """
    text = b"\x02" + raw
    uniq_key = _last_value(text, _UNIQ_KEY)
    tags = _last_value(text, _TAGS) if _TAGS in text else ""
    keys = _last_value(text, _KEYS) if _KEYS in text else ""
    if uniq_key and not tags and not keys:
        return "", [f"{topic}#{uniq_key}"]
    return tags, index_keys(topic, uniq_key, keys, tags if tag_entries else None)


def _last_value(text: bytes, mark: bytes) -> str:
    """Return the last value that is not empty of a property; `mark` is its name between two separators."""
    at = text.rfind(mark)
    while at >= 0:
        begin = at + len(mark)
        end = text.find(b"\x02", begin)
        value = text[begin:end] if end >= 0 else text[begin:]
        if value:
            return java_text(value)
        at = text.rfind(mark, 0, begin - 1)
    return ""


def index_keys(topic: str, uniq_key: str | None, keys: str | None, tags: str | None) -> list[str]:
    """Return the index keys of a record as `topic#key`, in the order of RocketMQ's entries."""
    found = [f"{topic}#{uniq_key}"] if uniq_key else []
    if keys:
        if " " in keys:
            found += [f"{topic}#{key}" for key in keys.split(" ") if key]
        else:
            found.append(f"{topic}#{keys}")
    if tags:
        found.append(f"{topic}#{TAG_KEY_PREFIX}{tags}")
    return found

"""Encoding of messages whose property string is already encoded, as a broker receives them.

`RawEncoder` takes the usual message: canonical properties, no delay, no LMQ, no half message. Every other message is
decoded and takes the path of `message_encoder`, which also refuses what may not be stored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, decode_properties
from rocketflow_store.format.record import (
    AFTER_PLACE,
    BEFORE_PLACE,
    FIXED_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MAX_V1_TOPIC_SIZE,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
    unlike_crc,
)
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message import Message, MessageBatch
from rocketflow_store.model.message_id import decode_host, encode_host
from rocketflow_store.model.property_names import (
    PROPERTY_CRC32,
    PROPERTY_INNER_BASE,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_INNER_NUM,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    TRANSIENT_PROPERTY_PREFIX,
)
from rocketflow_store.model.system_flags import (
    BORN_HOST_V6_FLAG,
    INNER_BATCH_FLAG,
    STORE_HOST_V6_FLAG,
    TRANSACTION_PREPARED,
)
from rocketflow_store.model.topic_names import check_send_topic, check_topic
from rocketflow_store.records.encoding.delayed_placement import REQUESTS
from rocketflow_store.records.encoding.unplaced_record import RecordRules, UnplacedRecord, index_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.model.broker_requests import RawMessage
    from rocketflow_store.settings.store_config import StoreConfig

_FACT_NAMES: Final = (PROPERTY_UNIQ_KEY, PROPERTY_KEYS, PROPERTY_TAGS)
_DECODED: Final = (
    *REQUESTS,
    PROPERTY_CRC32,
    PROPERTY_INNER_NUM,
    PROPERTY_INNER_BASE,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
)
"""Properties that change the record, its queue, or the string itself."""
_NAMED: Final = re.compile(
    f"\x02({'|'.join(_FACT_NAMES)}|{'|'.join(map(re.escape, _DECODED))}"
    f"|{re.escape(TRANSIENT_PROPERTY_PREFIX)}[^\x01\x02]*)\x01([^\x02]*)"
)
"""Finds properties in a text with a separator before it: a pattern that begins with a character is found fast."""
_DIGITS_AT: Final = len(PROPERTY_CRC_NAME) - PROPERTY_CRC_SIZE
_V6_SIZE: Final = 20
_MAX_TOPICS: Final = 4096
"""Maximum number of topics that are known to take messages."""
_FACTS: Final = frozenset(_FACT_NAMES)
_NOT_USUAL: Final = INNER_BATCH_FLAG | TRANSACTION_PREPARED
"""Flags of messages that take the other path; a rollback has the bit of a half message, a commit has not."""
HOST_SIZES: Final = (8, 20)
"""Sizes in bytes of an IPv4 and an IPv6 address with a port."""


class RawEncoder:
    """Encodes the usual raw messages under one configuration; `next_uniq_key` returns a new UNIQ_KEY."""

    def __init__(self, config: StoreConfig, rules: RecordRules, next_uniq_key: Callable[[], str]) -> None:
        self._rules, self._next_uniq_key = rules, next_uniq_key
        self._store_host = encode_host(config.store_host)
        self._host_flag = STORE_HOST_V6_FLAG if len(self._store_host) == _V6_SIZE else 0
        self._after = {size: AFTER_PLACE[size, len(self._store_host)] for size in HOST_SIZES}
        self._max_body = config.max_message_size
        self._reserved = PROPERTY_CRC_SIZE if config.append_prop_crc else 0
        self._max_properties = MAX_PROPERTIES_SIZE - self._reserved
        self._topics: dict[tuple[str, bool], tuple[int, bytes]] = {}

    def encode(self, raw: RawMessage, now_ms: int) -> UnplacedRecord | None:
        """Return the record of `raw`, or None if the message has to be decoded first (see `as_message`).

        Raises:
            MessageRejectedError: The topic takes no messages.
            struct.error: A number does not fit into its field.
        """
        topic, queue_id, body, properties, flag, sys_flag, born_ms, born_host, reconsume_times, prepared, _, _, _ = raw
        known = self._topics.get((topic, raw.is_internal)) or self._know(topic, is_internal=raw.is_internal)
        if (
            sys_flag & _NOT_USUAL
            or queue_id < 0
            or type(body) is not bytes
            or len(body) > self._max_body
            or len(born_host) not in HOST_SIZES
            or (properties and properties[-1] != 2)
        ):
            return None
        sys_flag &= ~STORE_HOST_V6_FLAG
        try:
            text = properties.decode()
        except UnicodeDecodeError:
            return None
        found = _NAMED.findall("\x02" + text)
        facts = dict(found)
        if len(facts) != len(found) or not facts.keys() <= _FACTS or "" in facts.values():
            return None
        if properties.count(1) != properties.count(2):
            return None
        uniq_key = facts.get(PROPERTY_UNIQ_KEY)
        if uniq_key is None:
            uniq_key = self._next_uniq_key()
            properties += f"{PROPERTY_UNIQ_KEY}\x01{uniq_key}\x02".encode()
        if len(properties) > self._max_properties:
            return None
        if not self._reserved:
            name = properties[-PROPERTY_CRC_SIZE:_DIGITS_AT]
            if not name.isalnum() or name[3:4] == b"R":  # else at most four bytes are those of a CRC's name
                properties = unlike_crc(properties)
        tags, rules = facts.get(PROPERTY_TAGS), self._rules
        keys = index_keys(topic, uniq_key, facts.get(PROPERTY_KEYS), tags if rules.tag_entries else None)
        magic, topic_part = known
        store_host, body_size = self._store_host, len(body)
        born_size, property_size = len(born_host), len(properties) + self._reserved
        size = FIXED_SIZE + born_size + len(store_host) + body_size + len(topic_part) + property_size
        before = BEFORE_PLACE.pack(size, magic, crc32(body) & 0x7FFFFFFF, queue_id, flag)
        sys_flag = sys_flag & ~BORN_HOST_V6_FLAG | self._host_flag
        if born_size == _V6_SIZE:
            sys_flag |= BORN_HOST_V6_FLAG
        after = self._after[born_size].pack(
            sys_flag, born_ms, born_host, now_ms, store_host, reconsume_times, prepared, body_size
        )
        rest = b"".join((after, body, topic_part, property_size.to_bytes(2, "big"), properties))
        tags_code = string_hash(tags) if tags else 0
        return UnplacedRecord._make((before, rest, size, topic, queue_id, tags_code, keys, 1, ()))

    def _know(self, topic: str, *, is_internal: bool) -> tuple[int, bytes]:
        """Return a topic's magic code, and its length and name as bytes; MessageRejectedError if it takes none."""
        if is_internal:
            check_topic(topic)
        else:
            check_send_topic(topic)
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        raw = topic.encode()
        is_short = len(raw) <= MAX_V1_TOPIC_SIZE
        known = MAGIC_V1 if is_short else MAGIC_V2, len(raw).to_bytes(1 if is_short else 2, "big") + raw
        self._topics[topic, is_internal] = known
        return known


def as_message(raw: RawMessage) -> Message:
    """Return a raw message with its properties decoded; ValueError for a malformed born host."""
    return Message(
        topic=raw.topic,
        body=raw.body,
        properties=decode_properties(raw.properties),
        queue_id=raw.queue_id,
        flag=raw.flag,
        sys_flag=raw.sys_flag,
        born_timestamp=raw.born_ms,
        born_host=decode_host(raw.born_host),
        reconsume_times=raw.reconsume_times,
        prepared_transaction_offset=raw.prepared_offset,
    )


def as_batch(raw: RawMessage) -> MessageBatch:
    """Return a raw batch with the batch's own properties decoded; ValueError for a malformed born host."""
    return MessageBatch(
        topic=raw.topic,
        body=raw.body,
        properties=decode_properties(raw.properties) if raw.properties else {},
        queue_id=raw.queue_id,
        sys_flag=raw.sys_flag,
        born_timestamp=raw.born_ms,
        born_host=decode_host(raw.born_host),
        reconsume_times=raw.reconsume_times,
    )

"""The kernel's encoder of usual sends under one configuration; the rules are those of `raw_encoder`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE
from rocketflow_store.format.record import PROPERTY_CRC_SIZE, ends_like_crc
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.topic_names import HALF_TOPIC, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from rocketflow_store.model.kernel_objects import SendFrames
    from rocketflow_store.settings.store_config import StoreConfig


def send_frames(
    config: StoreConfig,
    added: bytes,
    answers: tuple[tuple[bytes, ...], tuple[bytes, ...]],
    max_frame: int,
    max_run: tuple[int, int],
    max_ends: tuple[int, int],
) -> SendFrames | None:
    """Return the encoder of at most `max_run` (messages, bytes of bodies) at once, and of `max_ends` of transactions.

    None without the kernel, or if the end of the properties could be taken for a CRC.
    """
    if COMPILED is None or len(added) < PROPERTY_CRC_SIZE or added[-1] != 2 or ends_like_crc(added):
        return None
    made: SendFrames = COMPILED.SendFrames(
        added,
        encode_host(config.store_host),
        answers,
        max_frame=max_frame,
        max_body=config.max_message_size,
        max_record=min(config.max_message_size + 65_536, config.mapped_file_size_commit_log - 8),
        max_properties=MAX_PROPERTIES_SIZE - (PROPERTY_CRC_SIZE if config.append_prop_crc else 0),
        max_run=max_run[0],
        max_run_bytes=max_run[1],
        max_endings=max_ends[0],
        max_commit_bytes=max_ends[1],
        property_crc=config.append_prop_crc,
        tag_entries=config.tag_entries,
        half_topic=HALF_TOPIC,
        delay_topic=SCHEDULE_TOPIC,
        levels_ms=config.delay_levels_ms,
    )
    return made

"""Functions on texts and bytes, against the arguments and results of RocketMQ's own."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from rocketflow.client.consume.subscriptions import SubscriptionError, subscription
from rocketflow.remoting.recall_handle import RecallHandle, decode_recall_handle
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.message_id import InvalidMessageIdError, offset_msg_id
from rocketflow_store.model.topic_names import SEND_REFUSED_TOPICS, SYSTEM_TOPICS, TIMER_TOPIC, validate_topic
from rocketflow_store.spi.ids import decode_offset_msg_id, string_hash
from rocketflow_store.spi.messages import Message, batch_body, decode_properties, property_text
from tests.support.golden_remoting import VERSIONS, TextSample, text_samples

NOW: Final = 1_700_000_000_000
"""RocketMQ's clock when it made the golden files (ms)."""

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def test_property_strings_are_written_and_read(version: str) -> None:
    for sample in text_samples(version, "properties"):
        if "" in sample.given or any("\x01" in one for one in sample.given.values()):
            with pytest.raises(ValueError, match="property"):  # RocketMQ writes them, and reads others back
                property_text(sample.given)
        else:
            text = property_text(sample.given)
            assert (text if version == "5.3.3" else text.removesuffix("\x02")) == sample.result
    readings = text_samples(version, "properties_reading")
    assert len(readings) > 10
    for sample in readings:
        assert decode_properties((sample.given or "").encode()) == sample.result


def test_batches_are_written(version: str) -> None:
    for sample in text_samples(version, "batch"):
        if version == "4.9.7" and sample.given:
            continue  # without the last separator of each property string
        messages = [
            Message("T", bytes.fromhex(one["body"]), flag=one["flag"], properties=one["properties"])
            for one in sample.given
        ]
        assert batch_body(messages).hex() == sample.result


def test_ids_of_places_are_written_and_read(version: str) -> None:
    for sample in text_samples(version, "offset_id"):
        address, port, offset = sample.given["host"], sample.given["port"], sample.given["offset"]
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        assert offset_msg_id(host, offset) == sample.result
        assert decode_offset_msg_id(sample.result)[1] == offset
        assert offset_msg_id(*decode_offset_msg_id(sample.result)) == sample.result
    for sample in text_samples(version, "offset_id_reading"):
        if sample.refused or sample.given.startswith("Z"):  # RocketMQ reads any letter as a digit
            with pytest.raises(InvalidMessageIdError):
                decode_offset_msg_id(sample.given)
        else:
            address, physical_offset = decode_offset_msg_id(sample.given)
            assert physical_offset == sample.result["offset"]
            assert address.endswith(f":{sample.result['port']}")


def test_subscriptions_are_made(version: str) -> None:
    texts = [(one, one.given or "", "TAG") for one in text_samples(version, "subscription")]
    typed = [(one, one.given[0] or "", one.given[1] or "TAG") for one in text_samples(version, "typed_subscription")]
    for sample, expression, kind in [*texts, *typed]:
        if sample.refused or _is_stricter(sample, kind):
            with pytest.raises(SubscriptionError):
                subscription("TopicA", expression, version=NOW, expression_type=kind)
            continue
        found = msgspec.to_builtins(subscription("TopicA", expression, version=NOW, expression_type=kind))
        for name in ("tagsSet", "codeSet"):
            assert sorted(found.pop(name)) == sorted(sample.result[name]), expression
        assert found == {name: one for name, one in sample.result.items() if name in found}, expression


def _is_stricter(sample: TextSample, kind: str) -> bool:
    """Return whether RocketMQ makes a subscription that gets nothing: no tag, or a type that no broker knows."""
    return kind not in ("TAG", "SQL92") or (
        not sample.result["tagsSet"] and sample.result["subString"].strip(" |") == ""
    )


def test_tags_have_javas_hash(version: str) -> None:
    for sample in text_samples(version, "tag_code"):
        assert string_hash(sample.given or "") == sample.result


def test_names_are_allowed_and_refused(version: str) -> None:
    for sample in text_samples(version, "illegal_name"):
        if sample.result or sample.given in ("", "t" * 128):  # RocketMQ checks these two elsewhere
            with pytest.raises(StoreConfigError):
                validate_topic(sample.given)
        else:
            assert validate_topic(sample.given) == sample.given
    [internal], [refused] = (text_samples(version, kind) for kind in ("system_topics", "not_allowed_send_topics"))
    since_55 = {"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"}
    assert set(internal.result) | {"CHECKPOINT_TOPIC"} == SYSTEM_TOPICS - since_55  # the former is of 5.x
    assert set(refused.result) == SEND_REFUSED_TOPICS - since_55 - {TIMER_TOPIC}  # whose messages only timers write


def test_handles_of_recalls_are_written_and_read(version: str) -> None:
    for sample in text_samples(version, "recall_handle"):
        topic, broker, deliver_ms, key = sample.given
        handle = RecallHandle(topic, broker, int(deliver_ms), key)
        assert handle.encode() == sample.result
        assert decode_recall_handle(sample.result) == handle

"""The ids that Kafka's topics have now, asked for instead of taken from a client's list of topics.

A client's own list is minutes old at most: a topic that was recreated meanwhile is written and read under its name. An
id that is asked for after messages were sent or polled, and is unchanged, proves that they belong to the same topic.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from rocketflow.kafka.client import clients
from rocketflow.kafka.errors import BridgeError
from rocketflow.kafka.shared.topic_record import check_same_topic, id_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow.kafka.options.bridge_options import BridgeOptions

_ANSWER_MS: Final = 3_000
"""How long Kafka has to answer: a stop must end a run within ten seconds."""


class TopicIds:
    """Compares topics with the ids that a bridge knows; one thread at a time may call it."""

    def __init__(self, options: BridgeOptions) -> None:
        self._options = options
        self._admin: Any = None
        self._asked = time.monotonic()

    def check(self, known: Mapping[str, str | None]) -> None:
        """Raise TopicReplacedError if a topic has another id than the known one; an id of None is not compared.

        While no broker answers, nothing is compared: no topic can be recreated then.
        """
        topics = sorted(topic for topic, topic_id in known.items() if topic_id is not None)
        self._asked = time.monotonic()
        found = self._found(topics) if topics else {}
        for topic in topics:
            check_same_topic(topic, known[topic], found.get(topic), self._options.bridge_id)

    def check_again(self, known: Mapping[str, str | None]) -> None:
        """Check as `check` does if the last check was `discover_ms` ago."""
        if (time.monotonic() - self._asked) * 1000 >= self._options.discover_ms:
            self.check(known)

    def _found(self, topics: Sequence[str]) -> dict[str, str | None]:
        """Return the ids of topics, none while Kafka does not answer; a connection that fails is replaced once."""
        is_new = False
        while not is_new:
            is_new = self._admin is None
            try:
                if is_new:
                    limits = {"bootstrap_timeout_ms": _ANSWER_MS, "request_timeout_ms": _ANSWER_MS}
                    self._admin = clients.admin(self._options, **limits)
                with clients.kafka_errors(self._options):
                    return {one["name"]: id_text(one.get("topic_id")) for one in self._admin.describe_topics(topics)}
            except BridgeError:
                self.close()
        return {}

    def close(self) -> None:
        """End the connection, if there is one."""
        admin, self._admin = self._admin, None
        if admin is not None:
            with contextlib.suppress(Exception):
                admin.close()

"""The producer of a store-to-kafka bridge, and the state of its transaction."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from rocketflow.kafka.client import clients

if TYPE_CHECKING:
    from rocketflow.kafka.options.bridge_options import BridgeOptions

_CLOSE_S: Final = 2.0


class ProducerSession:
    """A producer with the bridge's transactional id: it fences its predecessor and ends that one's transaction."""

    def __init__(self, options: BridgeOptions) -> None:
        self.producer = clients.producer(options)
        self._open = False

    def begin_transaction(self) -> None:
        self.producer.begin_transaction()
        self._open = True

    def commit_transaction(self) -> None:
        self.producer.commit_transaction()
        self._open = False

    def close(self) -> None:
        """Close the producer and abort its open transaction; if that fails, Kafka aborts it after its timeout."""

        def close() -> None:
            with contextlib.suppress(Exception):  # readers see nothing uncommitted, whether this succeeds or not
                if self._open:
                    self.producer.abort_transaction()
                self.producer.close(timeout=_CLOSE_S)

        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(2 * _CLOSE_S)

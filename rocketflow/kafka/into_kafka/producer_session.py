"""The producer of a bridge out of a store, and whether a transaction of it is open."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from rocketflow.kafka.client import clients

if TYPE_CHECKING:
    from rocketflow.kafka.options.bridge_options import BridgeOptions

_CLOSE_S: Final = 2.0


class ProducerSession:
    """A producer of the bridge's transactional id: it fences whoever had this id, and ends what that had begun."""

    def __init__(self, options: BridgeOptions) -> None:
        self.producer = clients.producer(options)
        self._open = False

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self.producer.begin_transaction()
        self._open = True

    def commit_transaction(self) -> None:
        """Commit the open transaction."""
        self.producer.commit_transaction()
        self._open = False

    def close(self) -> None:
        """Let go of the producer; a transaction that is open is given up at once, or else Kafka does so in a while."""

        def close() -> None:
            with contextlib.suppress(Exception):  # what is not committed is not there, however it ends
                if self._open:
                    self.producer.abort_transaction()
                self.producer.close(timeout=_CLOSE_S)

        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(2 * _CLOSE_S)

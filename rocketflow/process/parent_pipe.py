"""End a server with the process that started it, however that ends: only the parent holds the pipe that is stdin."""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

_STDIN: Final = 0
_PIECE: Final = 4096


def stop_with_parent() -> None:
    """Send SIGTERM to this process once its stdin ends, as it does when the parent closes it or dies."""
    threading.Thread(target=_wait_for_end, name="parent-pipe", daemon=True).start()


def _wait_for_end() -> None:
    while os.read(_STDIN, _PIECE):
        pass
    os.kill(os.getpid(), signal.SIGTERM)

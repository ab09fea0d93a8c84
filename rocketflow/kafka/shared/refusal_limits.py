"""How much is kept of a message that the other side refused."""

from __future__ import annotations

from typing import Final

MAX_BODY: Final = 64 << 10
MAX_KEY: Final = 4 << 10
MAX_HEADERS: Final = 12 << 10
"""As JSON with base64 values, and some twice: together with a key less than the 32 KiB that properties may have."""
MAX_WHY: Final = 1000

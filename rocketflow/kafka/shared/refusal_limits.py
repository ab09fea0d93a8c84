"""The most bytes that a quarantined message keeps of its body, key and headers."""

from __future__ import annotations

from typing import Final

MAX_BODY: Final = 64 << 10
MAX_KEY: Final = 4 << 10
MAX_HEADERS: Final = 12 << 10
"""Counted as JSON with base64 values, some of them twice: together with a key below the 32 KiB limit of properties."""
MAX_WHY: Final = 1000

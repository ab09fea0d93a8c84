"""CRC-32: isal's where it is installed, as on every machine with a store, otherwise the standard library's."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32 as crc32
except ImportError:  # a client without the store's packages
    from zlib import crc32 as crc32

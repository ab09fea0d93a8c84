"""Log bytes <-> Arrow, a chunk at a time: no Python call per message but the CRC's."""

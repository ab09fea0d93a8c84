"""Encode messages and Arrow rows as record bytes, many at a time: the CRC's loop is the only one per message."""

"""Bytes of every file kind, one module each: pure functions, no files, no clock."""

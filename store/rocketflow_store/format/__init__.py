"""Bytes of every kind of file, one module each: pure functions without files or a clock."""

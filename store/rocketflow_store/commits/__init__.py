"""Exactly-once commits of staged rows."""

"""Convert rows to record bytes and back, one message at a time and in columns."""

"""Stored messages that are stored once more, each exactly once: delay levels, timers, requeues."""

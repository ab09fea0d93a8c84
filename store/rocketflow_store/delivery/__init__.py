"""Stored messages stored once more, each once: delay levels, timers, requeues."""

"""Rebuild queues and index from the log alone, in parallel: scan, write beside, verify, swap."""

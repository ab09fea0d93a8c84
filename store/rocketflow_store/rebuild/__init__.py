"""Queues and index made anew from the log alone, in parallel: scan, write beside, verify, swap."""

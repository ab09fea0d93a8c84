"""Events with stable codes, and counters."""

"""Events with stable codes, and the counters of a store."""

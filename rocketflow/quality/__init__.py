"""Expectations on consumed topics: Great Expectations' verdicts, Spark's split, one exactly-once commit a batch.

Great Expectations and Spark are imported inside functions only: the command line and the readers of results start fast.
"""

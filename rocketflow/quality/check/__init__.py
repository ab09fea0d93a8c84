"""Check one batch: count, judge, divide."""

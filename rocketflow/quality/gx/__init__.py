"""Great Expectations' side: its engine, metrics and verdicts."""

"""The quality job, the check of a range, the draft of a suite."""

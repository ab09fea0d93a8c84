"""Recovery: bring a directory in any state to one that can be written to."""

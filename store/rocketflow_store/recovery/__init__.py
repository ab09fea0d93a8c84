"""From a directory that somebody left, in whatever state, to one that can be written to."""

"""Reads of a store: gets, ranges, look-ups and searches."""

"""Consecutive files of one size: read through maps, preallocated, on one disk or several."""

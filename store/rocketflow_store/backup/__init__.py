"""Copies of a store that open at once, taken beside its writer."""

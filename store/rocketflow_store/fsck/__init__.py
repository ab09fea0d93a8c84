"""Verification and repair of a store: `verify`, `repair`, and dumps of single files."""

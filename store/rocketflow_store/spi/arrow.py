"""Kernels on Arrow arrays, without a Python call per row."""

from __future__ import annotations

from rocketflow_store.records.arrow.arrays import bool_array
from rocketflow_store.records.arrow.crc import crc32_column
from rocketflow_store.records.arrow.gather import constant_string, gather, int_array, values_array, with_validity

__all__ = [
    "bool_array",
    "constant_string",
    "crc32_column",
    "gather",
    "int_array",
    "values_array",
    "with_validity",
]

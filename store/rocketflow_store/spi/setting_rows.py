"""The type of everything that a user can set; needs the standard library alone."""

from __future__ import annotations

from rocketflow_store.model.setting import (
    LONG_MAX,
    NAME,
    OWN_PREFIX,
    Effect,
    Kind,
    Setting,
    ValueNotAllowedError,
    described,
    kind_of,
    nearest_name,
    option,
    rocketmq_setting,
    rows_of,
    same_setting,
    setting,
)

__all__ = [
    "LONG_MAX",
    "NAME",
    "OWN_PREFIX",
    "Effect",
    "Kind",
    "Setting",
    "ValueNotAllowedError",
    "described",
    "kind_of",
    "nearest_name",
    "option",
    "rocketmq_setting",
    "rows_of",
    "same_setting",
    "setting",
]

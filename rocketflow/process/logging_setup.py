"""Where log lines go: a dictionary of `logging.config` in a JSON file, as `conf/logging.json` is one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rocketflow.errors import UsageError

VARIABLE: Final = "ROCKETFLOW_LOGGING"


def set_up_logging() -> None:
    """Configure `logging` by the file that ROCKETFLOW_LOGGING names; without one warnings go to stderr.

    UsageError where the file cannot be used.
    """
    place = os.environ.get(VARIABLE)
    if not place:
        return
    from logging.config import dictConfig

    from rocketflow_store.spi.json_text import MAX_JSON_DEPTH, parse_json

    try:
        dictConfig(parse_json(Path(place).read_bytes(), max_depth=MAX_JSON_DEPTH))
    except (OSError, ValueError, TypeError, AttributeError, ImportError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else f"{error.__cause__ or error}"
        raise UsageError(
            f"logging configuration {place} cannot be used ({why}): "
            "give a JSON object as Python's logging.config.dictConfig takes it, see conf/logging.json"
        ) from error

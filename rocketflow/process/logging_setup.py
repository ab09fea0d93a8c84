"""Configure logging from a JSON file with a dictionary for `logging.config`, such as `conf/logging.json`."""

from __future__ import annotations

from pathlib import Path

from rocketflow.environment import LOGGING
from rocketflow.errors import UsageError


def set_up_logging() -> None:
    """Configure `logging` with the file in ROCKETFLOW_LOGGING; without one, warnings go to stderr.

    Raises: UsageError if the file is unreadable or invalid.
    """
    place = LOGGING.text()
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
            "give a JSON object for Python's logging.config.dictConfig, see conf/logging.json"
        ) from error

"""Log lines as JSON objects, one a line, for programs that collect logs."""

from __future__ import annotations

import json
import logging
from datetime import datetime


class JsonLines(logging.Formatter):
    """Format a record as a JSON object with the fields `time`, `level`, `logger`, `message` and, if any, `error`.

    `conf/logging-json.json` names it. `time` is in ISO 8601 with milliseconds and offset, `error` a traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = datetime.fromtimestamp(record.created).astimezone()
        found = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)

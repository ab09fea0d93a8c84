"""`rocketflow/sinks.json`: the last envelope of each sink whose envelopes retention removed from the log.

A JSON object: sink id to the text of the envelope's body (`commit_envelope`). A broker does not read it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.files.fastjson import parse_json_object
from rocketflow_store.files.json_fields import text_field
from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope, decode_envelope
from rocketflow_store.model.errors import StoreVersionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_envelopes(path: Path) -> dict[str, CommitEnvelope | None]:
    """Return the envelopes by sink id, None for one of another version.

    Raises StoreVersionError if the file is invalid.
    """
    return {sink_id: decode_envelope(body.encode("utf-8", "replace")) for sink_id, body in _texts(path).items()}


def add_envelopes(path: Path, envelopes: Mapping[str, CommitEnvelope]) -> None:
    """Add envelopes to the file, durably."""
    known = _texts(path) | {sink_id: envelope.encode().decode() for sink_id, envelope in envelopes.items()}
    os_files.write_atomically(path, json.dumps(known, indent=1, sort_keys=True).encode())


def _texts(path: Path) -> dict[str, str]:
    try:
        known = parse_json_object(os_files.read_file(path).decode("utf-8"))
        return {sink_id: text_field(known, sink_id, "") for sink_id in known}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreVersionError(path, f"is not readable ({error}); restore it, or remove it") from error

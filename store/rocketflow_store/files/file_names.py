"""The rule for names given by others that become names of files: sink ids, and the parts that they stage."""

from __future__ import annotations

import re
from typing import Final

from rocketflow_store.model.errors import StoreConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9_:@-][A-Za-z0-9_.:@-]*")


def check_file_name(kind: str, name: str, most: int = 120) -> str:
    """Return the name; raise StoreConfigError if it may lead to another place, hide a file or break a line.

    `kind` is the option or field that the name comes from.
    """
    if len(name) > most or not _NAME.fullmatch(name):
        raise StoreConfigError(
            kind, name[:most], f"must be 1 to {most} of letters, digits and _.:@-, and must not begin with a dot"
        )
    return name

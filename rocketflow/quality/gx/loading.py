"""Loading of Great Expectations, at its first use, because it takes seconds.

It imports PySpark's Connect client, which takes a main module without a file (`python -c`, a test process) for its own
doctests and ends the process. So such a process is made to look like an interactive one during the import.
"""

from __future__ import annotations

import sys


def load_great_expectations() -> None:
    """Import Great Expectations with any main module."""
    if "great_expectations" in sys.modules:
        return
    main = sys.modules["__main__"]
    taken_for_doctests = main.__spec__ is None and not hasattr(main, "__file__") and not hasattr(sys, "ps1")
    if taken_for_doctests:
        sys.ps1 = ""
    try:
        import great_expectations  # noqa: F401
    finally:
        if taken_for_doctests:
            del sys.ps1

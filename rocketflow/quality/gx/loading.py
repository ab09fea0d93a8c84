"""Great Expectations is loaded when it is first needed: that takes seconds.

It imports PySpark's Connect client, which takes a main module without a file (`python -c`, a test process) for its own
doctests, and ends the process. So such a process looks like one with a prompt while it loads.
"""

from __future__ import annotations

import sys


def load_great_expectations() -> None:
    """Import it, whatever the main module is."""
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

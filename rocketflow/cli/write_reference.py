"""Write the pages of the reference, or with `--check` name those that differ from the code."""

from __future__ import annotations

import sys

from rocketflow.cli.app import command_tree
from rocketflow.cli.reference.entries import all_entries
from rocketflow.cli.reference.pages import DIRECTORY, pages


def main() -> int:
    """Write or check the pages; return 1 if a checked page differs."""
    written = pages(all_entries(command_tree()))
    if "--check" not in sys.argv[1:]:
        for name, text in written.items():
            (DIRECTORY / name).write_text(text, "utf-8")
        return 0
    known = {path.name: path.read_text("utf-8") for path in DIRECTORY.glob("*.md")}
    stale = sorted(name for name in {*written, *known} if written.get(name) != known.get(name))
    if stale:
        print(f"pages of the reference differ from the code: {', '.join(stale)}; run `make reference`", file=sys.stderr)
        return 1
    print("reference ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

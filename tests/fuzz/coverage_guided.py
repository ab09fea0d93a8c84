"""One target under libFuzzer (atheris): `python -m tests.fuzz.coverage_guided TARGET [libFuzzer's arguments]`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["rocketflow_store", "rocketflow.remoting"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run libFuzzer until it ends, with an error if the target raises an exception that it may not raise."""
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""The block of the store's page runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.trials import ROOT


def test_block_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "store" / "README.md").read_text("utf-8"), re.M | re.S)
    scope: dict[str, object] = {"STORE": tmp_path / "store"}
    exec(compile(text, "store/README.md", "exec"), scope)
    assert capsys.readouterr().out == "b'...'\n"
    assert len(scope["batches"]) == 1  # type: ignore[arg-type]

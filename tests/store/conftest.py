"""The tests of a sample have their directories in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import memory_disk

if memory_disk.IN_MEMORY:

    @pytest.fixture(scope="session")
    def tmp_path_factory(memory_paths: memory_disk.MemoryPaths) -> memory_disk.MemoryPaths:
        return memory_paths

    @pytest.fixture
    def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
        with memory_disk.directory(request) as path:
            yield path

"""Records become the same messages with the compiled kernel and without it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.format import stored_message
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import StoreError
from rocketflow_store.spi.broker import decode_stored
from tests.store.kernel.log_records import Log, logs
from tests.support.kernel_switch import without_kernel

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")


def decoded(record: bytes | memoryview) -> object:
    """Return the message of a record, or the error."""
    try:
        return decode_stored(record)
    except (StoreError, UnicodeDecodeError) as error:
        return str(error)


@given(
    logs(),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3),
    st.integers(-4, 4),
)
def test_messages_of_records_are_those_of_python(log: Log, changes: list[tuple[int, int]], more: int) -> None:
    for position, size in zip(log.positions.tolist(), log.sizes.tolist()):
        record = bytearray(log.data[position : position + size + more])
        for at, octet in changes:
            if record:
                record[at % len(record)] = octet
        made = decoded(bytes(record))
        assert made == decoded(memoryview(pa.py_buffer(bytes(record))))  # of signed bytes
        with without_kernel(stored_message):
            assert made == decoded(bytes(record))

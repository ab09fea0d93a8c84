"""Nearly valid bytes: seeds with a few changes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

LARGE = (b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0" * 4, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 20)
_PLACES = st.integers(0, 1 << 16)
_CHANGES = st.one_of(
    st.tuples(st.just("put"), _PLACES, st.binary(min_size=1, max_size=4) | st.sampled_from(LARGE)),
    st.tuples(st.just("insert"), _PLACES, st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("cut"), _PLACES, st.just(b"")),
    st.tuples(st.just("remove"), _PLACES, st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("repeat"), _PLACES, st.just(b"")),
)


def nearly(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Generate arbitrary bytes, and seeds with up to six changes."""
    return st.binary(max_size=200) | st.builds(_changed, st.sampled_from(seeds), st.lists(_CHANGES, max_size=6))


def _changed(data: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    for kind, place, raw in changes:
        at = place % (len(data) + 1)
        if kind == "put":
            data = data[:at] + raw + data[at + len(raw) :]
        elif kind == "insert":
            data = data[:at] + raw + data[at:]
        elif kind == "cut":
            data = data[:at]
        elif kind == "remove":
            data = data[:at] + data[at + len(raw) :]
        elif len(data) < 1 << 14:
            data = data[:at] + data
    return data

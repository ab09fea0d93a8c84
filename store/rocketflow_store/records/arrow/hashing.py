"""Java's String.hashCode of a whole column.

hash = sum of unit * 31 ** (distance from the string's end), modulo 2 ** 32; strings with characters beyond ASCII hash
over UTF-16 units and are handled one by one. Hashes of a concatenation follow from those of its parts: hash(a + b) =
hash(a) * 31 ** len(b) + hash(b).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.model.java_compat import index_hash_of, java_text, string_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    Hashes = npt.NDArray[np.uint32]

_POWERS_KEPT: Final = 4096
TOGETHER_FROM: Final = 6
"""From so many keys of one length on, a matrix product is faster than a loop."""


def _powers(count: int) -> Hashes:
    out = np.ones(count, np.uint32)
    with np.errstate(over="ignore"):
        out[1:] = np.cumprod(np.full(count - 1, 31, np.uint32), dtype=np.uint32)
    return out


_POWERS: Final = _powers(_POWERS_KEPT)


def powers_of_31(exponents: npt.NDArray[np.int64]) -> Hashes:
    """Return 31 ** exponents modulo 2 ** 32."""
    if len(exponents) and int(exponents.max()) >= _POWERS_KEPT:
        return _powers(int(exponents.max()) + 1)[exponents]
    return _POWERS[exponents]


def string_hashes(array: pa.Array) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Return (hashes as uint32, lengths in UTF-16 units) of a string or binary array; nulls count as empty."""
    count = len(array)
    if count == 0:
        return np.zeros(0, np.uint32), np.zeros(0, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int32, count + 1, array.offset * 4).astype(np.int64)
    lengths = np.diff(offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    if first == last:
        return np.zeros(count, np.uint32), lengths
    octets = np.frombuffer(array.buffers()[2], np.uint8, last - first, first)
    width = int(lengths[0])
    if width and bool((lengths == width).all()):
        hashes = octets.reshape(count, width) @ powers_of_31(np.arange(width - 1, -1, -1))
    else:
        ends = np.repeat(offsets[1:] - first, lengths)
        products = octets * powers_of_31(ends - np.arange(1, len(octets) + 1))
        filled = np.flatnonzero(lengths)
        hashes = np.zeros(count, np.uint32)
        hashes[filled] = np.add.reduceat(products, (offsets[:-1] - first)[filled], dtype=np.uint32)
    if bool((octets >= 0x80).any()):
        for row in np.flatnonzero(np.add.reduceat(octets >= 0x80, _inside(offsets - first))).tolist():
            start, end = int(offsets[row]) - first, int(offsets[row + 1]) - first
            if start == end:
                continue
            text = java_text(octets[start:end].tobytes())
            hashes[row] = string_hash(text) & 0xFFFFFFFF
            lengths[row] = len(text.encode("utf-16-be", "surrogatepass")) // 2
    return hashes, lengths


def _inside(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    starts: npt.NDArray[np.int64] = np.minimum(offsets[:-1], offsets[-1] - 1)
    return starts


def index_hashes_of(texts: Sequence[str]) -> list[int]:
    """Return `index_hash_of` of each text; texts of equal length are calculated together."""
    by_width: dict[int, list[int]] = {}
    for at, text in enumerate(texts):
        by_width.setdefault(len(text), []).append(at)
    hashes = [0] * len(texts)
    for width, places in by_width.items():
        joined = "".join([texts[at] for at in places])
        if len(places) < TOGETHER_FROM or width >= _POWERS_KEPT or not joined.isascii():
            for at in places:
                hashes[at] = index_hash_of(texts[at])
            continue
        units = np.frombuffer(joined.encode("ascii"), np.uint8).reshape(len(places), width)
        found = (units @ _POWERS[width - 1 :: -1][:width]).astype(np.uint32).view(np.int32)
        for at, value in zip(places, found.tolist(), strict=True):
            value = abs(value)
            hashes[at] = 0 if value == 1 << 31 else value
    return hashes


def index_hashes(
    topic_prefix_hashes: Hashes, key_hashes: Hashes, key_lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Return the index key hashes of `topic#key`, given the hashes of "topic#" and of the keys."""
    with np.errstate(over="ignore"):
        whole = (topic_prefix_hashes * powers_of_31(key_lengths) + key_hashes).view(np.int32)
        folded = np.abs(whole)
    folded[folded < 0] = 0
    return folded


def splitmix64(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the finaliser of splitmix64: every bit of a value affects every bit of its hash."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))

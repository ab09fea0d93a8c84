"""Offset message ids of many records, as the response to a batch lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.model.message_id import host_digits

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_OFFSET_DIGITS: Final = 16


def offset_msg_ids(store_host: str, phy_offsets: Ints, counts: Ints) -> list[str]:
    """Return the ids of each batch's messages, joined by commas.

    `counts` are the numbers of physical offsets of each batch.
    """
    host = host_digits(store_host)
    width = len(host) + _OFFSET_DIGITS + 1
    rows = np.empty((len(phy_offsets), width), np.uint8)
    rows[:, : len(host)] = np.frombuffer(host.encode(), np.uint8)
    digits = phy_offsets.astype(">i8").tobytes().hex().upper().encode()
    rows[:, len(host) : -1] = np.frombuffer(digits, np.uint8).reshape(-1, _OFFSET_DIGITS)
    rows[:, -1] = ord(",")
    text = rows.tobytes().decode()
    ends = (np.cumsum(counts) * width).tolist()
    return [text[end - count * width : end - 1] for end, count in zip(ends, counts.tolist(), strict=True)]

"""Copies of stores without their holes: a new store has files of 1.5 GB, nearly all of which is not allocated."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from typing import Any, Final

SMALL: Final = 1 << 20
"""Bytes of a file that is copied as usual."""
_copy_file: Final = shutil.copyfile


def copy_file(source: Any, target: Any, *, follow_symlinks: bool = True) -> Any:
    """Copy the data of a file as `shutil.copyfile` does, and leave holes where it has holes."""
    if os.path.islink(source) or not os.path.isfile(source) or os.path.getsize(source) < SMALL:
        return _copy_file(source, target, follow_symlinks=follow_symlinks)
    with open(source, "rb") as read, open(target, "wb") as written:
        written.truncate(os.fstat(read.fileno()).st_size)
        for at, end in list(_data(read.fileno())):  # all before the first read: what the system reads ahead is data
            os.lseek(written.fileno(), at, os.SEEK_SET)
            while at < end:
                at += os.sendfile(written.fileno(), read.fileno(), at, end - at)
    return target


def _data(fd: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each range of a file that is no hole."""
    end = 0
    while True:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data up to the end
                return
            raise
        end = os.lseek(fd, begin, os.SEEK_HOLE)
        yield begin, end

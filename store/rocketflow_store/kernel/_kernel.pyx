# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The store's compiled kernel. Each part is a file of its own; `_kernel.pyi` has the signatures."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

cdef extern from "kernel.h" nogil:
    const uint32_t MAGIC_V1, MAGIC_V2
    void crc_prepare()
    const int crc_folds
    uint32_t crc32_of(const uint8_t *at, size_t size)
    uint32_t crc32_by(int folds, const uint8_t *at, size_t size)
    uint32_t java_hash(uint32_t before, const uint8_t *at, size_t size)
    uint32_t get16(const uint8_t *at)
    uint32_t get32(const uint8_t *at)
    uint64_t get64(const uint8_t *at)
    void put16(uint8_t *at, uint32_t value)
    void put32(uint8_t *at, uint32_t value)
    void put64(uint8_t *at, uint64_t value)

INTERFACE = 17
"""Changes with every change of a signature; `loading.INTERFACE` is what the Python side expects."""

crc_prepare()


def crc32(const uint8_t[::1] data not None, int folds = 2):
    """Return the CRC-32 of data, by tables (0) or with the instructions of the processor up to `folds`."""
    return crc32_by(min(folds, crc_folds), &data[0], data.shape[0]) if data.shape[0] else 0


include "text.pxi"
include "record.pxi"
include "columns.pxi"
include "walk.pxi"
include "verify.pxi"
include "pulls.pxi"
include "encode.pxi"
include "dispatch.pxi"
include "puts.pxi"
include "batches.pxi"
include "route.pxi"
include "prepared.pxi"
include "sends.pxi"
include "ends.pxi"

# The records of a pull, read and checked together: `reading.sound_records` says what each rule is.

from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_Resize


def first_span(bytes units not None, int64_t most_bytes, int64_t room, int64_t max_gap):
    """Return how many first units have records that one call reads, and the bytes of that call."""
    cdef const uint8_t *unit = units
    cdef Py_ssize_t count = len(units) // UNIT_SIZE, one
    cdef int64_t begin = <int64_t>get64(unit) if count else 0
    cdef int64_t place, at, size, total = 0, end = 0
    for one in range(count):
        place, size = <int64_t>get64(unit), <int32_t>get32(unit + 8)
        at = <int64_t>(<uint64_t>place - <uint64_t>begin)
        total += size
        if place < begin or at < end or at - end > max_gap or at > room or size > room - at:
            return one, end
        if size < LEAST_RECORD or total > most_bytes:
            return one, end
        end = at + size
        unit += UNIT_SIZE
    return count, end


cdef int judge_units(const uint8_t *raw, int64_t length, const uint8_t *unit, Py_ssize_t count, int64_t first,
                     const int64_t *offsets, int64_t queue_id, const uint8_t *part, int64_t part_size) noexcept nogil:
    """Return 0 if a record is not sound, 1 if all are by their own CRC, 2 if all are by that of the body.

    The queue offsets are those from `first` on if `offsets` is NULL.
    """
    cdef int64_t begin = <int64_t>get64(unit), after = 0, place, start, size
    cdef Py_ssize_t one
    cdef const uint8_t *record
    cdef RecordParts parts
    cdef int judged, of_first = 0
    for one in range(count):
        place, size = <int64_t>get64(unit + UNIT_SIZE * one), <int32_t>get32(unit + UNIT_SIZE * one + 8)
        start = <int64_t>(<uint64_t>place - <uint64_t>begin)
        if place < begin or start < after or size < 0 or start > length - size:
            return 0
        record, after = raw + start, start + size
        if not parts_of_record(record, size, &parts):
            return 0
        if (
            get32(record + 4) != MAGIC_V1
            or parts.hosts_more
            or <int32_t>get32(record + 12) != queue_id
            or get64(record + 20) != (<uint64_t>first + <uint64_t>one if offsets == NULL else <uint64_t>offsets[one])
            or <int64_t>get64(record + 28) != place
            or parts.topic_size + 1 != part_size
            or memcmp(record + parts.topic - 1, part, part_size) != 0
            or parts.properties_size == 0
        ):
            return 0
        judged = judge_record(&parts, True)
        if one == 0:
            of_first = judged
        if judged < 0 or judged != of_first:
            return 0
    return 1 if of_first else 2


cdef int64_t close_gaps(uint8_t *raw, const uint8_t *unit, Py_ssize_t count) noexcept nogil:
    """Move records that follow each other to the begin of `raw`; return the size of all."""
    cdef int64_t begin = <int64_t>get64(unit), total = 0, start, size
    cdef Py_ssize_t one
    for one in range(count):
        start, size = <int64_t>get64(unit + UNIT_SIZE * one) - begin, <int32_t>get32(unit + UNIT_SIZE * one + 8)
        if start != total:
            memmove(raw + total, raw + start, size)
        total += size
    return total


def sound_records(
    bytearray raw not None,
    bytes units not None,
    int64_t queue_id,
    bytes topic_part not None,
    int64_t first,
    const int64_t[::1] offsets=None,
):
    """Return whether the records of `units`, with whose first `raw` begins, are whole, and the messages they say.

    0: not all, 1: all, by CRCs of themselves, 2: all, by CRCs of their bodies; the caller looks whether that is enough.
    Unless it is 0, `raw` has the records alone after it; no other thread may use it meanwhile. The queue offsets of the
    units are `offsets`, or without them those from `first` on.
    """
    cdef Py_ssize_t count = len(units) // UNIT_SIZE
    cdef int64_t length = len(raw), part_size = len(topic_part)
    cdef uint8_t *octets = <uint8_t *>PyByteArray_AsString(raw)
    cdef const uint8_t *unit = units
    cdef const uint8_t *part = topic_part
    cdef const int64_t *given = NULL
    cdef int found
    if count == 0 or (offsets is not None and offsets.shape[0] != count):
        return 0
    if offsets is not None:
        given = &offsets[0]
    with nogil:
        found = judge_units(octets, length, unit, count, first, given, queue_id, part, part_size)
        if found:
            length = close_gaps(octets, unit, count)
    if found:
        PyByteArray_Resize(raw, length)
    return found

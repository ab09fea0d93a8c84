# The records of a pull, checked together: `reading.sound_records.are_sound` says what each rule is.

from libc.stdlib cimport free, malloc

cdef enum:
    FIXED = 88  # bytes of a record before its body, if both hosts are of IPv4
    LEAST = 91
    CRC_SIZE = 20
    CRC_NAME_SIZE = 9
    CRC_ALIKE = 6

cdef const uint8_t *CRC_NAME = b"__CRC32#\x01"


cdef inline bint ends_like_crc(const uint8_t *end) noexcept nogil:
    """Return whether the last bytes before `end` are those of a record's CRC, or what damage left of one."""
    cdef const uint8_t *tail = end - CRC_SIZE
    cdef int alike = end[-1] == 2
    cdef int at
    for at in range(CRC_NAME_SIZE):
        alike += tail[at] == CRC_NAME[at]
    return alike >= CRC_ALIKE


cdef inline bint is_record_crc(const uint8_t *record, const uint8_t *end) noexcept nogil:
    """Return whether a record ends with the CRC of itself: ten digits, the least significant first."""
    cdef uint32_t crc = crc32_of(record, end - CRC_SIZE - record) & 0x7FFFFFFF
    cdef const uint8_t *digit = end - CRC_SIZE + CRC_NAME_SIZE
    cdef int at
    for at in range(CRC_SIZE - CRC_NAME_SIZE - 1):
        if digit[at] != 48 + crc % 10:
            return False
        crc = crc // 10
    return end[-1] == 2


cdef struct Place:
    int64_t start
    int64_t size
    int64_t offset
    int64_t phy_offset


cdef int sound(const uint8_t *raw, int64_t length, const Place *places, Py_ssize_t count, int64_t queue_id,
               const uint8_t *part, int64_t part_size) noexcept nogil:
    """Return 0 if a record is not sound, 1 if all are by their own CRC, 2 if all are by that of the body."""
    cdef Py_ssize_t one
    cdef int64_t body_size, room
    cdef const uint8_t *record
    cdef const uint8_t *end
    cdef const uint8_t *topic
    cdef bint has_crc, of_first = False
    for one in range(count):
        if places[one].start < 0 or places[one].size < LEAST or places[one].start > length - places[one].size:
            return 0
        record = raw + places[one].start
        end = record + places[one].size
        body_size = <int32_t> get32(record + 84)
        if (
            <int32_t> get32(record) != places[one].size
            or get32(record + 4) != 0xDAA320A7u
            or <int32_t> get32(record + 12) != queue_id
            or <int64_t> get64(record + 20) != places[one].offset
            or <int64_t> get64(record + 28) != places[one].phy_offset
            or record[39] & 0x30
            or body_size < 0
        ):
            return 0
        room = places[one].size - FIXED - body_size - part_size - 2
        if room < 1:
            return 0
        topic = record + FIXED + body_size
        if memcmp(topic, part, part_size) != 0:
            return 0
        has_crc = room >= CRC_SIZE and memcmp(end - CRC_SIZE, CRC_NAME, CRC_NAME_SIZE) == 0
        if one == 0:
            of_first = has_crc
        elif has_crc != of_first:
            return 0
        if has_crc:
            if not is_record_crc(record, end):
                return 0
        elif (
            room >= CRC_SIZE and ends_like_crc(end)
            or get16(topic + part_size) != room
            or end[-1] == 0
            or (crc32_of(record + FIXED, body_size) & 0x7FFFFFFF) != get32(record + 8)
        ):
            return 0
    return 1 if of_first else 2


def sound_records(
    const uint8_t[::1] raw not None,
    list starts not None,
    list sizes not None,
    list offsets not None,
    list phy_offsets not None,
    int64_t queue_id,
    bytes topic_part not None,
):
    """Return whether the records at `starts` of `raw` are whole, and the messages that their units say.

    0: not all, 1: all, by CRCs of themselves, 2: all, by CRCs of their bodies; the caller looks whether that is enough.
    """
    cdef Py_ssize_t count = len(starts), one
    cdef Place *places
    cdef const uint8_t *part = topic_part
    cdef int64_t part_size = len(topic_part)
    cdef int found
    if count == 0 or raw.shape[0] == 0 or not len(sizes) == len(offsets) == len(phy_offsets) == count:
        return 0
    places = <Place *> malloc(count * sizeof(Place))
    if places == NULL:
        raise MemoryError
    try:
        for one in range(count):
            places[one].start, places[one].size = starts[one], sizes[one]
            places[one].offset, places[one].phy_offset = offsets[one], phy_offsets[one]
        with nogil:
            found = sound(&raw[0], raw.shape[0], places, count, queue_id, part, part_size)
    finally:
        free(places)
    return found


def close_gaps(uint8_t[::1] raw not None, list starts not None, list sizes not None):
    """Move the pieces at `starts`, which follow each other, to the begin of `raw`; return the size of all.

    Raises ValueError, with the pieces before moved, if one is not after those before it or not in `raw`.
    """
    cdef Py_ssize_t count = len(starts), one
    cdef int64_t total = 0, after = 0, start, size, length = raw.shape[0]
    for one in range(count):
        start, size = starts[one], sizes[one]
        if start < after or size < 0 or start > length - size:
            raise ValueError(f"piece {one} of {size} bytes at {start} overlaps others or is not in {length} bytes")
        if start != total:
            memmove(&raw[0] + total, &raw[0] + start, size)
        total, after = total + size, start + size
    return total

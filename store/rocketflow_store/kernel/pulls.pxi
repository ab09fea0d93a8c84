# The records of a pull, checked together: `reading.sound_records.are_sound` says what each rule is.

cdef struct Place:
    int64_t start
    int64_t size
    int64_t offset
    int64_t phy_offset


cdef int judge_places(const uint8_t *raw, int64_t length, const Place *places, Py_ssize_t count, int64_t queue_id,
                      const uint8_t *part, int64_t part_size) noexcept nogil:
    """Return 0 if a record is not sound, 1 if all are by their own CRC, 2 if all are by that of the body."""
    cdef Py_ssize_t one
    cdef const uint8_t *record
    cdef RecordParts parts
    cdef int judged, of_first = 0
    for one in range(count):
        if places[one].start < 0 or places[one].size < 0 or places[one].start > length - places[one].size:
            return 0
        record = raw + places[one].start
        if not parts_of_record(record, places[one].size, &parts):
            return 0
        if (
            get32(record + 4) != MAGIC_V1
            or parts.hosts_more
            or <int32_t>get32(record + 12) != queue_id
            or <int64_t>get64(record + 20) != places[one].offset
            or <int64_t>get64(record + 28) != places[one].phy_offset
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
            found = judge_places(&raw[0], raw.shape[0], places, count, queue_id, part, part_size)
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

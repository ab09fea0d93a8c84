# Units of queues and entries of index files: see `views/dispatch/dispatcher.py` and `views/index/index_file.py`.

cdef enum:
    UNIT_SIZE = 20
    ENTRY_SIZE = 20
    INDEX_HEADER = 40
    SLOTS_AHEAD = 16
    MOST_SECONDS = 0x7FFFFFFF


cdef extern from *:
    """
    #define fetch_ahead(at) __builtin_prefetch((at), 1)
    """
    void fetch_ahead(const uint8_t *at) noexcept nogil


cdef inline void put_unit(uint8_t *to, int64_t phy_offset, int64_t size, int64_t tags_code) noexcept nogil:
    put64(to, <uint64_t>phy_offset)
    put32(to + 8, <uint32_t>size)
    put64(to + 12, <uint64_t>tags_code)


def units_by_queue(
    const int64_t[::1] queue_of not None,
    const int64_t[::1] queue_offsets not None,
    const int64_t[::1] phy_offsets not None,
    const int64_t[::1] sizes not None,
    const int64_t[::1] tags_codes not None,
    int64_t[:, ::1] queues not None,
    int64_t[:, ::1] runs not None,
    uint8_t[::1] units not None,
):
    """Write the units of rows by queue, in the order of the rows; return the number of runs.

    A run (queue, first queue offset, position of its first unit) has consecutive queue offsets. Rows of queue -1 get no
    unit; `queues` has space for three numbers of each queue. ValueError for a row of another queue.
    """
    cdef int64_t row, queue, count = queue_of.shape[0], place = 0, found = 0
    cdef bint known = True
    if (
        queue_offsets.shape[0] != count or phy_offsets.shape[0] != count or sizes.shape[0] != count
        or tags_codes.shape[0] != count or runs.shape[0] < count or runs.shape[1] != 3 or queues.shape[1] != 3
        or units.shape[0] // UNIT_SIZE < count
    ):
        raise ValueError("a column has another number of rows")
    with nogil:
        for queue in range(queues.shape[0]):
            queues[queue, 0] = queues[queue, 1] = 0
        for row in range(count):
            if not -1 <= queue_of[row] < queues.shape[0]:
                known = False
                break
            if queue_of[row] >= 0:
                queues[queue_of[row], 0] += 1
        if known:
            for queue in range(queues.shape[0]):  # number of units -> place of the next unit
                place += queues[queue, 0]
                queues[queue, 0] = place - queues[queue, 0]
            for row in range(count):
                queue = queue_of[row]
                if queue < 0:
                    continue
                place = queues[queue, 0]
                if not queues[queue, 1] or queues[queue, 2] != queue_offsets[row]:
                    runs[found, 0], runs[found, 1], runs[found, 2] = queue, queue_offsets[row], place
                    queues[queue, 1] = 1
                    found += 1
                put_unit(&units[0] + UNIT_SIZE * place, phy_offsets[row], sizes[row], tags_codes[row])
                queues[queue, 0] = place + 1
                queues[queue, 2] = <int64_t>(<uint64_t>queue_offsets[row] + 1)
    if not known:
        raise ValueError("a row has no queue")
    return found


def rows_by_queue(
    const int32_t[::1] queue_of not None,
    const int64_t[::1] queue_offsets not None,
    const int64_t[::1] phy_offsets not None,
    int64_t queues,
    int64_t[::1] order not None,
    int64_t[:, ::1] runs not None,
):
    """Bring the rows of each queue together, in their order; return how many have a queue, and the number of runs.

    A run is (queue, its first place in `order`, the place after it, first queue offset, physical offsets of the first and
    the last record): its queue offsets are consecutive. Rows of queue -1 are left out. ValueError for a row of another.
    """
    cdef int64_t row, queue, count = queue_of.shape[0], place = 0, found = 0, at, before
    cdef bint known = True
    cdef int64_t *places
    if (
        queue_offsets.shape[0] != count or phy_offsets.shape[0] != count or order.shape[0] < count or queues < 0
        or runs.shape[0] < count or runs.shape[1] != 6
    ):
        raise ValueError("a column has another number of rows")
    places = <int64_t *>calloc(queues + 1, sizeof(int64_t))
    if places == NULL:
        raise MemoryError
    with nogil:
        for row in range(count):
            if not -1 <= queue_of[row] < queues:
                known = False
                break
            places[queue_of[row] + 1] += 1
        if known:
            places[0] = 0
            for queue in range(queues):  # number of rows of the queue before -> place of the next row
                places[queue + 1] += places[queue]
            for row in range(count):
                queue = queue_of[row]
                if queue >= 0:
                    order[places[queue]] = row
                    places[queue] += 1
            place = places[queues - 1] if queues else 0
            before = -1
            for at in range(place):
                row = order[at]
                if before < 0 or queue_of[row] != queue_of[before] or queue_offsets[row] != <int64_t>(
                    <uint64_t>queue_offsets[before] + 1
                ):
                    runs[found, 0], runs[found, 1], runs[found, 3] = queue_of[row], at, queue_offsets[row]
                    runs[found, 4] = phy_offsets[row]
                    found += 1
                runs[found - 1, 2], runs[found - 1, 5] = at + 1, phy_offsets[row]
                before = row
    free(places)
    if not known:
        raise ValueError("a row has no queue")
    return place, found


cdef inline int64_t seconds_since(int64_t begin, int64_t timestamp) noexcept nogil:
    cdef double seconds = <double>(<int64_t>(<uint64_t>timestamp - <uint64_t>begin)) / 1000
    if begin <= 0 or seconds < 0:
        return 0
    return MOST_SECONDS if seconds > MOST_SECONDS else <int64_t>seconds


cdef inline int64_t slot_of(int32_t key_hash, int64_t slots) noexcept nogil:
    cdef int64_t slot = key_hash % slots
    return slot + slots if slot < 0 else slot


cdef inline bint append_entry(
    uint8_t *at, int64_t slots, int64_t number, int64_t previous, int32_t key_hash, int64_t phy_offset, int64_t seconds
) noexcept nogil:
    """Write entry `number` and its slot, after entry `previous` of the slot; return True if it is the slot's first."""
    cdef uint8_t *entry = at + 4 * slots + ENTRY_SIZE * number
    put32(entry, <uint32_t>key_hash)
    put64(entry + 4, <uint64_t>phy_offset)
    put32(entry + 12, <uint32_t>seconds)
    put32(entry + 16, <uint32_t>previous)
    put32(at + 4 * slot_of(key_hash, slots), <uint32_t>number)
    return previous == 0


cdef inline bint link_entry(
    uint8_t *at, int64_t slots, int64_t number, int32_t key_hash, int64_t phy_offset, int64_t seconds
) noexcept nogil:
    """Write entry `number` and its slot, after the newest entry of the slot; return True if it is the slot's first."""
    cdef int64_t previous = <int32_t>get32(at + 4 * slot_of(key_hash, slots))
    if not 0 < previous <= number:  # what damage left is no link
        previous = 0
    return append_entry(at, slots, number, previous, key_hash, phy_offset, seconds)


cdef int check_index(int64_t size, int64_t slots, int64_t first, int64_t count) except -1:
    """Raise ValueError if entries from `first` on are not within an index file of `size` bytes."""
    if slots <= 0 or slots > size // 4 or first < 1 or first > size // ENTRY_SIZE:
        raise ValueError("the index file has other numbers of slots or entries")
    if INDEX_HEADER + 4 * slots + ENTRY_SIZE * (first + count) > size:
        raise ValueError("the entries do not fit into the index file")
    return 0


def put_index_entries(
    uint8_t[::1] mapped not None,
    int64_t slots,
    int64_t first,
    int64_t begin_timestamp,
    const int32_t[::1] hashes not None,
    const int64_t[::1] phy_offsets not None,
    const int64_t[::1] store_timestamps not None,
):
    """Append entries to an index file from entry `first` on; return the number of slots that got their first entry.

    ValueError, and nothing is written, if they do not fit.
    """
    cdef int64_t count = hashes.shape[0], row, previous, slot, started = 0, begin = begin_timestamp
    cdef uint8_t *at
    if phy_offsets.shape[0] != count or store_timestamps.shape[0] != count:
        raise ValueError("a column has another number of rows")
    check_index(mapped.shape[0], slots, first, count)
    with nogil:
        at = &mapped[0] + INDEX_HEADER
        for row in range(count):
            if row + SLOTS_AHEAD < count:
                fetch_ahead(at + 4 * slot_of(hashes[row + SLOTS_AHEAD], slots))
            slot = slot_of(hashes[row], slots)
            previous = <int32_t>get32(at + 4 * slot)
            # of the values that damage leaves in a slot, none after `first` is a link
            if previous < 0 or previous >= first + row and previous > first or previous > first and (
                slot_of(<int32_t>get32(at + 4 * slots + ENTRY_SIZE * previous), slots) != slot
            ):
                previous = 0
            started += append_entry(
                at, slots, first + row, previous, hashes[row], phy_offsets[row],
                seconds_since(begin, store_timestamps[row]),
            )
            if first + row == 1:
                begin = store_timestamps[0]  # the first entry is measured against the time carried over
    return started


def put_index_run(
    uint8_t[::1] mapped not None,
    int64_t slots,
    int64_t first,
    int64_t begin_timestamp,
    hashes,
    phy_offsets,
    int64_t count,
    int64_t store_timestamp,
):
    """Append the first `count` of a few entries with one store time, as `put_index_entries` does."""
    cdef int64_t row, started = 0, seconds = seconds_since(begin_timestamp, store_timestamp)
    cdef uint8_t *at
    if count < 0:
        raise ValueError("no entries")
    check_index(mapped.shape[0], slots, first, count)
    at = &mapped[0] + INDEX_HEADER
    for row in range(count):
        started += link_entry(at, slots, first + row, hashes[row], phy_offsets[row], seconds)
        if first + row == 1:
            seconds = 0  # the first entry is measured against the time carried over
    return started


def follow_index_rows(
    const uint8_t[::1] rows not None,
    int32_t[::1] newest not None,
    int64_t first,
    int64_t begin_timestamp,
    uint8_t[::1] entries not None,
):
    """Fill the entries from number `first` on of an index file that is built at once; return how many begin a slot.

    Rows are (physical offset, store time, key hash), little-endian. `newest` has the newest entry of each slot.
    """
    cdef int64_t count = rows.shape[0] // ENTRY_SIZE, slots = newest.shape[0], one, slot, time, begin = begin_timestamp
    cdef int64_t started = 0
    cdef uint64_t place
    cdef int32_t key_hash, ahead
    cdef const uint8_t *row
    cdef uint8_t *entry
    if rows.shape[0] != count * ENTRY_SIZE or entries.shape[0] != rows.shape[0]:
        raise ValueError("entries of different counts")
    if slots == 0 or first < 1 or count == 0 or first > MOST_SECONDS - count:
        raise ValueError("the index file has other numbers of slots or entries")
    with nogil:
        for one in range(count):
            row = &rows[ENTRY_SIZE * one]
            entry = &entries[ENTRY_SIZE * one]
            if one + SLOTS_AHEAD < count:
                memcpy(&ahead, row + ENTRY_SIZE * SLOTS_AHEAD + 16, 4)
                fetch_ahead(<const uint8_t *>&newest[slot_of(ahead, slots)])
            memcpy(&time, row + 8, 8)
            memcpy(&key_hash, row + 16, 4)
            slot = slot_of(key_hash, slots)
            put32(entry, <uint32_t>key_hash)
            memcpy(&place, row, 8)
            put64(entry + 4, place)
            put32(entry + 12, <uint32_t>seconds_since(begin, time))
            put32(entry + 16, <uint32_t>newest[slot])
            started += newest[slot] == 0
            newest[slot] = <int32_t>(first + one)
            if first + one == 1:
                begin = time  # only the first entry is measured against the time that was carried over
    return started

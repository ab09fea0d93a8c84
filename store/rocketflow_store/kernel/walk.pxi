"""A walk over records of the log: where they begin, and what dispatch needs of each."""

from libc.stdlib cimport calloc, free, malloc

cdef enum:
    UNIQ_KEY = 0
    KEYS = 1
    TAGS = 2
    DELAY = 3
    LMQ_OFFSETS = 4
    NAMES_OF_DISPATCH = 5
    NO_QUEUE_KINDS = 0x4
    MAX_LEVEL_DIGITS = 9
    MAX_PROBES = 256
    AHEAD_OF_WALK = 2048

cdef struct Entries:
    int32_t *hashes
    int64_t *of_row
    uint8_t *of_tag
    int64_t count
    int64_t room


def follow_sizes(
    const uint8_t[::1] data not None, int64_t position, int64_t limit, int64_t least_size, int64_t[::1] positions not None
):
    """Follow parts that begin with their own size (i32) from `position` on; return (their number, the end of the last).

    `positions` gets their positions. The chain ends before a part of less than `least_size` bytes or one that reaches
    beyond `limit`.
    """
    cdef Py_ssize_t count = 0, most = positions.shape[0]
    cdef int64_t size
    cdef const uint8_t *first
    limit = min(limit, data.shape[0])
    least_size = max(least_size, 4)
    if position < 0 or most == 0 or data.shape[0] == 0:
        return 0, position
    first = &data[0]
    with nogil:
        while count < most and position <= limit - least_size:
            size = <int32_t>get32(first + position)
            if size < least_size or size > limit - position:
                break
            positions[count] = position
            position += size
            count += 1
    return count, position


def follow_records(
    const uint8_t[::1] data not None,
    int64_t position,
    int64_t limit,
    int64_t[::1] positions not None,
    int64_t[::1] sizes not None,
):
    """Follow records from `position` on as `follow_sizes`, up to one without a magic code; fill their sizes too.

    Where a record begins is known when the one before it was read, which takes as long as memory: so the bytes after it
    are asked for before.
    """
    cdef Py_ssize_t count = 0, most = positions.shape[0]
    cdef int64_t size, fetched = position
    cdef uint32_t magic
    cdef const uint8_t *first
    limit = min(limit, data.shape[0])
    if sizes.shape[0] != most:
        raise ValueError("columns of different counts")
    if position < 0 or most == 0 or data.shape[0] == 0:
        return 0, position
    first = &data[0]
    with nogil:
        while count < most and position <= limit - LEAST_RECORD:
            while fetched < position + AHEAD_OF_WALK and fetched < limit:
                prefetch_octets(first + fetched, 1)
                fetched += 64
            size, magic = <int32_t>get32(first + position), get32(first + position + 4)
            if size < LEAST_RECORD or size > limit - position or (magic != MAGIC_V1 and magic != MAGIC_V2):
                break
            positions[count], sizes[count] = position, size
            position += size
            count += 1
    return count, position


cdef int add_entry(Entries *entries, uint32_t before, const uint8_t *at, int64_t size, int64_t row, bint of_tag) noexcept nogil:
    """Add the entry of a key, unless it is empty; return 0, -1 if it is not UTF-8, -2 without room for it."""
    if size == 0:
        return 0
    if text_hash(&before, at, size) < 0:
        return -1
    if entries.count == entries.room:
        return -2
    entries.hashes[entries.count] = index_hash_of(before)
    entries.of_row[entries.count] = row
    entries.of_tag[entries.count] = of_tag
    entries.count += 1
    return 0


cdef int add_entries(Entries *entries, const Text *values, uint32_t topic_hash, const Text *tag_prefix, int64_t row) noexcept nogil:
    """Add the entries of a record: UNIQ_KEY, KEYS (separated by blanks), TAGS."""
    cdef uint32_t before = topic_hash * 31u + <uint8_t>35
    cdef const uint8_t *at = values[KEYS].at
    cdef const uint8_t *end
    cdef const uint8_t *stop
    cdef int done = add_entry(entries, before, values[UNIQ_KEY].at, values[UNIQ_KEY].size, row, False)
    if done == 0 and at != NULL:
        end = at + values[KEYS].size
        while done == 0 and at < end:
            stop = <const uint8_t *>memchr(at, 0x20, end - at)
            if stop == NULL:
                stop = end
            done = add_entry(entries, before, at, stop - at, row, False)
            at = stop + 1
    if done == 0 and values[TAGS].size:
        text_hash(&before, tag_prefix.at, tag_prefix.size)
        done = add_entry(entries, before, values[TAGS].at, values[TAGS].size, row, True)
    return done


cdef int64_t delay_level(const Text *text) noexcept nogil:
    """Return the level of a DELAY, 0 for none, -1 if it is not a short decimal number."""
    cdef int64_t level = 0, one
    cdef uint8_t digit
    if text.size > MAX_LEVEL_DIGITS:
        return -1
    for one in range(text.size):
        digit = text.at[one] - <uint8_t>48
        if digit > 9:
            return -1
        level = level * 10 + digit
    return level


cdef struct Queues:
    # open addressing: code + 1 by the hash of topic and queue id; the first row of each code
    int32_t *slots
    uint32_t mask
    int32_t *first_rows
    int32_t count


cdef int32_t queue_code(Queues *queues, const RecordParts *parts, uint32_t topic_hash, const uint8_t *log, const int64_t *positions, const int64_t *sizes, Py_ssize_t row) noexcept nogil:
    """Return the number of the record's queue, in the order of their first records; -1 if too many hashes agree."""
    cdef uint32_t queue_id = get32(parts.record + 12)
    cdef uint32_t at = (topic_hash ^ queue_id * 0x9E3779B1u) * 0x85EBCA6Bu
    cdef int32_t code, tried
    cdef Py_ssize_t known
    cdef RecordParts other
    at ^= at >> 15
    for tried in range(MAX_PROBES):
        at &= queues.mask
        code = queues.slots[at] - 1
        if code < 0:
            code = queues.count
            queues.slots[at] = code + 1
            queues.first_rows[code] = <int32_t>row
            queues.count += 1
            return code
        known = queues.first_rows[code]
        if get32(log + positions[known] + 12) == queue_id:
            parts_of_record(log + positions[known], sizes[known], &other)
            if other.topic_size == parts.topic_size and memcmp(other.record + other.topic, parts.record + parts.topic, parts.topic_size) == 0:
                return code
        at += 1
    return -1


def dispatch_rows(
    const uint8_t[::1] log not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] sizes not None,
    tuple checked,
    tuple names not None,
    bytes tag_prefix not None,
    bytes schedule_topic not None,
    const int64_t[::1] delays_ms not None,
    tuple columns not None,
    tuple entry_columns not None,
):
    """Fill what dispatch needs of records that follow each other; return what was seen, None if one is left over.

    `checked` is None for records that were checked before, else (the physical offset of the log's first byte, from, to):
    each record must have its place and its CRC, those in [from, to) that of the whole record. `names` are those of
    UNIQ_KEY, KEYS, TAGS, DELAY, and of a property with which a record is left over. `columns` are buffers for tags codes,
    store times, queue offsets (int64), queues, flags (int32); `entry_columns` for hashes (int32), rows (int64), and 1 for
    TAGS of index entries.

    Returns (index entries, records without a CRC of their own, [(topic, queue id)] in the order of their first records).
    A negative number of entries: there was no room for all of them.
    """
    cdef int64_t[::1] tags_codes = columns[0], times = columns[1], queue_offsets = columns[2]
    cdef int32_t[::1] queue_of = columns[3], sys_flags = columns[4]
    cdef int32_t[::1] hashes = entry_columns[0]
    cdef int64_t[::1] of_row = entry_columns[1]
    cdef uint8_t[::1] of_tag = entry_columns[2]
    cdef Py_ssize_t count = positions.shape[0], row = 0
    cdef int64_t extent = log.shape[0], base = 0, crc_from = 0, crc_to = 0, bare = 0, place, time, level
    cdef int64_t levels = delays_ms.shape[0]
    cdef bint check = checked is not None
    cdef int judged, done = 0
    cdef uint32_t topic_hash, tag_hash
    cdef Text prefix = Text(<const uint8_t *><const char *>tag_prefix, len(tag_prefix))
    cdef Text schedule = Text(<const uint8_t *><const char *>schedule_topic, len(schedule_topic))
    cdef const uint8_t *first
    cdef const uint8_t *at
    cdef Entries entries
    cdef Queues queues
    cdef Names wanted
    cdef Text values[MAX_NAMES]
    cdef RecordParts parts
    if count == 0 or count > 1 << 24 or extent == 0 or hashes.shape[0] == 0:
        return None
    if sizes.shape[0] != count or tags_codes.shape[0] != count or times.shape[0] != count:
        raise ValueError("columns of different counts")
    if queue_offsets.shape[0] != count or queue_of.shape[0] != count or sys_flags.shape[0] != count:
        raise ValueError("columns of different counts")
    if of_row.shape[0] != hashes.shape[0] or of_tag.shape[0] != hashes.shape[0] or len(names) != NAMES_OF_DISPATCH:
        raise ValueError("columns of index entries of different counts")
    if check:
        base, crc_from, crc_to = checked
    take_names(names, &wanted)
    entries = Entries(&hashes[0], &of_row[0], &of_tag[0], 0, hashes.shape[0])
    queues.mask = 1
    while queues.mask < 2 * count:
        queues.mask = queues.mask * 2
    queues.count = 0
    queues.slots = <int32_t *>calloc(queues.mask + count, sizeof(int32_t))
    if queues.slots == NULL:
        raise MemoryError
    queues.first_rows = queues.slots + queues.mask
    queues.mask -= 1
    first = &log[0]
    try:
        with nogil:
            for row in range(count):
                if positions[row] < 0 or sizes[row] < LEAST_RECORD or positions[row] > extent - sizes[row]:
                    break
                at = first + positions[row]
                if not parts_of_record(at, sizes[row], &parts):
                    break
                if parts.sys_flag & (NO_QUEUE_KINDS | 0x80) or get32(at + 12) >> 31:
                    break
                if check:
                    place = <int64_t>get64(at + 28)
                    judged = judge_record(&parts, True)
                    if place != base + positions[row] or judged < 0:
                        break
                    if judged == 0:
                        if crc_from <= place < crc_to:
                            break
                        bare += 1
                topic_hash = tag_hash = 0
                if text_hash(&topic_hash, at + parts.topic, parts.topic_size) < 0:
                    break
                find_properties(&parts, &wanted, values)
                if values[LMQ_OFFSETS].size or text_hash(&tag_hash, values[TAGS].at, values[TAGS].size) < 0:
                    break
                time = <int64_t>get64(at + 56 + parts.born_more)
                times[row] = time
                tags_codes[row] = <int32_t>tag_hash
                if parts.topic_size == schedule.size and memcmp(at + parts.topic, schedule.at, schedule.size) == 0:
                    level = delay_level(&values[DELAY])
                    if level < 0 or levels == 0:
                        break
                    if level:
                        level = min(level, levels)
                        tags_codes[row] = <int64_t>(<uint64_t>time + <uint64_t>delays_ms[level - 1])
                queue_offsets[row] = <int64_t>get64(at + 20)
                sys_flags[row] = <int32_t>parts.sys_flag
                queue_of[row] = queue_code(&queues, &parts, topic_hash, first, &positions[0], &sizes[0], row)
                if queue_of[row] < 0:
                    break
                done = add_entries(&entries, values, topic_hash, &prefix, row)
                if done < 0:
                    break
            else:
                row = count
        if done == -2:
            return -1, 0, []
        if row < count:
            return None
        seen = []
        for row in range(queues.count):
            at = first + positions[queues.first_rows[row]]
            parts_of_record(at, sizes[queues.first_rows[row]], &parts)
            topic = (<const char *>(at + parts.topic))[: parts.topic_size]
            seen.append((topic, <int64_t>get32(at + 12)))
        return entries.count, bare, seen
    finally:
        free(queues.slots)

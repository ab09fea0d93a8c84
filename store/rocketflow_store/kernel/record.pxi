"""The parts of a record of the log, and the check of its bytes: for every part of the kernel that reads records."""

from cpython.bytes cimport PyBytes_FromStringAndSize

cdef extern from *:
    """
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    /* Ask for memory before it is needed: records of a queue are far from each other in the log. */
    static inline void prefetch_octets(const uint8_t *at, int64_t size) {
        for (int64_t ahead = 0; ahead < size; ahead += 64) __builtin_prefetch(at + ahead);
    }

    /* The first byte of [at, end) that is `one` or `other`, or `end`. Values are short: a call of memchr costs more.
       The 16 bytes before `end` are readable: they are those of a record. */
    static inline const uint8_t *find_either(const uint8_t *at, const uint8_t *end, uint8_t one, uint8_t other) {
    #if defined(__SSE2__)
        const __m128i ones = _mm_set1_epi8((char)one), others = _mm_set1_epi8((char)other);
        for (; end - at >= 16; at += 16) {
            __m128i octets = _mm_loadu_si128((const __m128i *)at);
            int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(octets, ones), _mm_cmpeq_epi8(octets, others)));
            if (found) return at + __builtin_ctz((unsigned)found);
        }
        if (at == end) return end;
        __m128i octets = _mm_loadu_si128((const __m128i *)(end - 16));
        int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(octets, ones), _mm_cmpeq_epi8(octets, others)));
        found &= (int)(0xFFFFu << (16 - (end - at)));
        return found ? end - 16 + __builtin_ctz((unsigned)found) : end;
    #else
        while (at < end && *at != one && *at != other) at++;
        return at;
    #endif
    }
    """
    void prefetch_octets(const uint8_t *at, int64_t size) nogil
    const uint8_t *find_either(const uint8_t *at, const uint8_t *end, uint8_t one, uint8_t other) nogil

cdef enum:
    ROWS_AHEAD = 2
    MOST_AHEAD = 2048
    LEAST_RECORD = 91
    HEAD_SIZE = 88
    V6_MORE = 12
    BORN_V6 = 0x10
    STORE_V6 = 0x20
    CRC_NAME_SIZE = 9
    CRC_PROPERTY_SIZE = 20
    CRC_ALIKE = 6
    MAX_NAMES = 8

cdef const char *CRC_NAME = b"__CRC32#\x01"

cdef struct RecordParts:
    # offsets count from the record's first byte
    const uint8_t *record
    int64_t size
    int64_t born_more
    int64_t hosts_more
    int64_t body
    int64_t body_size
    int64_t topic
    int64_t topic_size
    int64_t properties
    int64_t properties_size
    uint32_t sys_flag

cdef struct Text:
    const uint8_t *at
    int64_t size

cdef struct Names:
    int count
    Text names[MAX_NAMES]


cdef bint parts_of_record(const uint8_t *record, int64_t size, RecordParts *parts) noexcept nogil:
    """Locate the parts of a record of `size` readable bytes; return False unless they fill it exactly."""
    cdef uint32_t magic
    cdef int64_t at
    if size < LEAST_RECORD or size > 0x7FFFFFFF or get32(record) != <uint32_t>size:
        return False
    magic = get32(record + 4)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return False
    parts.record, parts.size = record, size
    parts.sys_flag = get32(record + 36)
    parts.born_more = V6_MORE if parts.sys_flag & BORN_V6 else 0
    parts.hosts_more = parts.born_more + (V6_MORE if parts.sys_flag & STORE_V6 else 0)
    at = HEAD_SIZE + parts.hosts_more
    if at > size - 3:
        return False
    parts.body = at
    parts.body_size = <int32_t>get32(record + at - 4)
    if parts.body_size < 0 or parts.body_size > size - 3 - at:
        return False
    at += parts.body_size
    if magic == MAGIC_V1:
        parts.topic_size = <int8_t>record[at]
        at += 1
    else:
        parts.topic_size = <int16_t>get16(record + at)
        at += 2
    parts.topic = at
    if parts.topic_size < 0 or parts.topic_size > size - 2 - at:
        return False
    at += parts.topic_size
    parts.properties_size = <int16_t>get16(record + at)
    parts.properties = at + 2
    return parts.properties_size >= 0 and parts.properties + parts.properties_size == size


cdef inline bint ends_like_crc(const uint8_t *end) noexcept nogil:
    """Return whether the last bytes of properties are those of a record's CRC, or what damage left of one."""
    cdef const uint8_t *tail = end - CRC_PROPERTY_SIZE
    cdef int alike = tail[CRC_PROPERTY_SIZE - 1] == 2
    cdef int one
    for one in range(CRC_NAME_SIZE):
        alike += tail[one] == <uint8_t>CRC_NAME[one]
    return alike >= CRC_ALIKE


cdef int judge_record(const RecordParts *parts, bint bodies) noexcept nogil:
    """Return 1 if the record's own CRC is right, 0 if it has none (and its body's is right, if `bodies`), else -1."""
    cdef const uint8_t *tail = parts.record + parts.size - CRC_PROPERTY_SIZE
    cdef int one
    cdef int64_t value = 0
    cdef uint8_t digit
    cdef uint32_t actual
    if parts.properties_size >= CRC_PROPERTY_SIZE:
        if tail[CRC_PROPERTY_SIZE - 1] == 2 and memcmp(tail, CRC_NAME, CRC_NAME_SIZE) == 0:
            for one in range(CRC_PROPERTY_SIZE - 2, CRC_NAME_SIZE - 1, -1):
                digit = tail[one] - <uint8_t>48
                if digit > 9:
                    return -1
                value = value * 10 + digit
            actual = crc32_of(parts.record, parts.size - CRC_PROPERTY_SIZE) & 0x7FFFFFFFu
            return 1 if value == <int64_t>actual else -1
        if ends_like_crc(parts.record + parts.size):
            return -1
    if parts.properties_size and parts.record[parts.size - 1] == 0:
        return -1
    if bodies and crc32_of(parts.record + parts.body, parts.body_size) & 0x7FFFFFFFu != get32(parts.record + 8):
        return -1
    return 0


cdef int take_names(tuple given, Names *names) except -1:
    """Take names of properties; the caller keeps them alive."""
    if len(given) > MAX_NAMES:
        raise ValueError(f"at most {MAX_NAMES} names")
    names.count = 0
    for one in given:
        names.names[names.count].at = <const uint8_t *><const char *>(<bytes>one)
        names.names[names.count].size = len(<bytes>one)
        names.count += 1
    return 0


cdef void find_properties(const RecordParts *parts, const Names *names, Text *values) noexcept nogil:
    """Find the values of the names; of duplicates the last counts, `at` is NULL where there is none."""
    cdef const uint8_t *at = parts.record + parts.properties
    cdef const uint8_t *end = parts.record + parts.size
    cdef const uint8_t *stop
    cdef const uint8_t *equal
    cdef int64_t size
    cdef int one
    for one in range(names.count):
        values[one].at, values[one].size = NULL, 0
    while at < end:
        equal = find_either(at, end, 1, 2)
        if equal == end or equal[0] == 2:
            at = equal + 1
            continue
        stop = find_either(equal + 1, end, 2, 2)
        size = equal - at
        if size and equal + 1 < stop:
            for one in range(names.count):
                if size == names.names[one].size and at[0] == names.names[one].at[0] and memcmp(at, names.names[one].at, size) == 0:
                    values[one].at, values[one].size = equal + 1, stop - equal - 1
        at = stop + 1


def stored_parts(const uint8_t[::1] record not None):
    """Return the message of a record and its place, None if its lengths do not fit together.

    The message is (topic, queue, body, properties without the record's CRC, flag, sysFlag, born time, born host,
    reconsume times, prepared offset), the place (queue offset, physical offset, store time, store host).
    """
    cdef const uint8_t *at
    cdef int64_t size = get32(&record[0]) if record.shape[0] >= 4 else 0
    cdef RecordParts parts
    if size == 0 or size > record.shape[0] or not parts_of_record(&record[0], size, &parts):
        return None
    at = parts.record
    size = parts.properties_size
    if size >= CRC_PROPERTY_SIZE and ends_like_crc(at + parts.size):
        size -= CRC_PROPERTY_SIZE
    return (
        (
            octets_from(at + parts.topic, parts.topic_size).decode(),
            <int32_t>get32(at + 12),
            octets_from(at + parts.body, parts.body_size),
            octets_from(at + parts.properties, size),
            <int32_t>get32(at + 16),
            <int32_t>parts.sys_flag,
            <int64_t>get64(at + 40),
            octets_from(at + 48, 8 + parts.born_more),
            <int32_t>get32(at + 72 + parts.hosts_more),
            <int64_t>get64(at + 76 + parts.hosts_more),
        ),
        <int64_t>get64(at + 20),
        <int64_t>get64(at + 28),
        <int64_t>get64(at + 56 + parts.born_more),
        octets_from(at + 64 + parts.born_more, 8 + parts.hosts_more - parts.born_more),
    )


cdef bytes octets_from(const uint8_t *at, int64_t size):
    return PyBytes_FromStringAndSize(<const char *>at, size)


def judge_records(
    const uint8_t[::1] log not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] sizes not None,
    bint bodies,
    uint8_t[::1] protected not None,
):
    """Check the contents of records; return how many are right before the first that is not, or is unusual.

    `protected` gets 1 for each that ends with a CRC of itself. Others are judged by their body's CRC, if `bodies`.
    """
    cdef Py_ssize_t count = positions.shape[0], row = 0
    cdef int64_t extent = log.shape[0]
    cdef const uint8_t *first
    cdef RecordParts parts
    cdef int judged
    if count == 0 or sizes.shape[0] != count or protected.shape[0] != count or extent == 0:
        return 0
    first = &log[0]
    with nogil:
        for row in range(count):
            if positions[row] < 0 or sizes[row] < LEAST_RECORD or positions[row] > extent - sizes[row]:
                break
            if not parts_of_record(first + positions[row], sizes[row], &parts):
                break
            judged = judge_record(&parts, bodies)
            if judged < 0:
                break
            protected[row] = judged
        else:
            row = count
    return row

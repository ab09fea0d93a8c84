# Judgement of records that another process encoded: see `records/encoding/prepared.py`, which is the definition.

cdef bint is_utf8(const uint8_t *at, int64_t size) noexcept nogil:
    cdef uint32_t state = 0
    return text_hash(&state, at, size) >= 0


cdef bint are_usual_properties(const uint8_t *at, int64_t size, Span *ids) noexcept nogil:
    """Find UNIQ_KEY, KEYS and TAGS; return False for what the store sets, reads elsewhere or finds in its own way.

    That is also a property string that is not `name 0x01 value 0x02` repeated, with a part that is empty or twice an id.
    """
    cdef const uint8_t *end = at + size
    cdef const uint8_t *close
    cdef const uint8_t *mark
    cdef int64_t name
    cdef int found
    for found in range(3):
        ids[found].at, ids[found].size, ids[found].is_named = NULL, 0, False
    while at < end:
        close = <const uint8_t *>memchr(at, 2, end - at)
        if close == NULL:
            return False
        mark = <const uint8_t *>memchr(at, 1, close - at)
        if mark == NULL or mark == at or mark + 1 == close or memchr(mark + 1, 1, close - mark - 1) != NULL:
            return False
        name = mark - at
        found = -1
        if name == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
            found = 0
        elif name == 4 and memcmp(at, b"KEYS", 4) == 0:
            found = 1
        elif name == 4 and memcmp(at, b"TAGS", 4) == 0:
            found = 2
        elif not is_usual_name(at, name) and not (name == 13 and memcmp(at, b"__SHARDINGKEY", 13) == 0):
            return False
        if found >= 0:
            if ids[found].is_named:
                return False
            ids[found].at, ids[found].size, ids[found].is_named = mark + 1, close - mark - 1, True
        at = close + 1
    return True


cdef inline bint is_entry(
    uint32_t state, const uint8_t *key, int64_t size, int64_t row, bint of_tag, int64_t entry, const int32_t[::1] hashes,
    const int64_t[::1] of_row, const uint8_t[::1] tagged,
) noexcept nogil:
    """Return True if an index entry is that of a key."""
    return (
        entry < hashes.shape[0] and text_hash(&state, key, size) >= 0 and hashes[entry] == index_hash_of(state)
        and of_row[entry] == row and (tagged[entry] != 0) == of_tag
    )


cdef bint rows_are_prepared(
    const int32_t *ends,
    const uint8_t[::1] octets,
    const int64_t[::1] starts,
    const int64_t[::1] sizes,
    const int32_t[::1] topic_ends,
    const uint8_t[::1] topic_parts,
    const uint32_t[:, ::1] topics,
    const int32_t[::1] topic_codes,
    const int32_t[::1] queue_ids,
    const int64_t[::1] tags_codes,
    const int32_t[::1] hashes,
    const int64_t[::1] of_row,
    const uint8_t[::1] of_tag,
    bint property_crc,
    int64_t most_body,
    int64_t most_record,
    int64_t most_queues,
) noexcept nogil:
    cdef int64_t count = starts.shape[0], kinds = topics.shape[0], row, at, size, body, width, begin, entry = 0
    cdef int64_t reserved = CRC_PROPERTY_SIZE if property_crc else 0
    cdef int32_t code
    cdef uint32_t state
    cdef const uint8_t *record
    cdef const uint8_t *place
    cdef const uint8_t *end
    cdef Span[3] ids
    cdef bint indexed = hashes.shape[0] > 0
    for row in range(count):
        size, code = sizes[row], topic_codes[row]
        if (
            starts[row] < 0 or size < HEAD_SIZE + 3 + reserved or size > most_record
            or starts[row] > octets.shape[0] - size or not 0 <= code < kinds
        ):
            return False
        record = &octets[0] + starts[row]
        end = record + size
        body = <int32_t>get32(record + 84)
        width = ends[code + 1] - ends[code]
        if (
            get32(record) != size or topics[code, 0] != MAGIC_V1 or get32(record + 4) != topics[code, 0]
            or get32(record + 36) or <int32_t>get32(record + 12) != queue_ids[row]
            or not 0 <= queue_ids[row] < most_queues or get32(record + 72) or get64(record + 76)
            or not 0 <= body <= most_body or body > size - HEAD_SIZE - width - 2 - reserved
        ):
            return False
        place = record + HEAD_SIZE + body
        if (
            (crc32_of(record + HEAD_SIZE, body) & 0x7FFFFFFFu) != get32(record + 8)
            or width == 0 or memcmp(place, &topic_parts[0] + ends[code], width)
        ):
            return False
        place += width
        if get16(place) > MOST_PROPERTIES or place + 2 + get16(place) != end:
            return False
        place += 2
        end -= reserved
        for at in range(reserved):
            if end[at]:
                return False
        if (
            not are_usual_properties(place, end - place, ids) or not is_utf8(place, end - place)
            or (not property_crc and end - place >= CRC_PROPERTY_SIZE and ends_like_crc(end))
        ):
            return False
        state = 0
        text_hash(&state, ids[2].at, ids[2].size)
        if tags_codes[row] != <int32_t>state:
            return False
        if not indexed:
            continue
        state = topics[code, 1]
        if ids[0].size:
            if not is_entry(state, ids[0].at, ids[0].size, row, False, entry, hashes, of_row, of_tag):
                return False
            entry += 1
        begin = 0
        for at in range(ids[1].size + 1):
            if ids[1].size == 0 or (at < ids[1].size and ids[1].at[at] != 0x20):
                continue
            if at > begin:
                if not is_entry(state, ids[1].at + begin, at - begin, row, False, entry, hashes, of_row, of_tag):
                    return False
                entry += 1
            begin = at + 1
        if ids[2].size:
            if not is_entry(topics[code, 2], ids[2].at, ids[2].size, row, True, entry, hashes, of_row, of_tag):
                return False
            entry += 1
    return entry == hashes.shape[0]


def are_prepared(
    const uint8_t[::1] octets not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] sizes not None,
    const int32_t[::1] topic_ends not None,
    const uint8_t[::1] topic_parts not None,
    const uint32_t[:, ::1] topics not None,
    const int32_t[::1] topic_codes not None,
    const int32_t[::1] queue_ids not None,
    const int64_t[::1] tags_codes not None,
    const int32_t[::1] hashes not None,
    const int64_t[::1] of_row not None,
    const uint8_t[::1] of_tag not None,
    bint property_crc,
    int64_t most_body,
    int64_t most_record,
    int64_t most_queues,
):
    """Return True if all rows are usual records that their columns claim; False leaves the judgement over.

    `topic_parts` has each topic with its length, `topics` its magic and the hashes of `topic#` and `topic#T#`. Without
    index entries none are expected.
    """
    cdef int64_t count = starts.shape[0], kinds = topics.shape[0]
    cdef const int32_t *ends
    cdef bint found
    if (
        sizes.shape[0] != count or topic_codes.shape[0] != count or queue_ids.shape[0] != count
        or tags_codes.shape[0] != count or of_row.shape[0] != hashes.shape[0] or of_tag.shape[0] != hashes.shape[0]
        or topic_ends.shape[0] != kinds + 1 or topics.shape[1] != 4
    ):
        raise ValueError("a column has another number of rows")
    take_offsets(topic_ends, kinds, topic_parts.shape[0], &ends)
    with nogil:
        found = rows_are_prepared(
            ends, octets, starts, sizes, topic_ends, topic_parts, topics, topic_codes, queue_ids, tags_codes, hashes, of_row, of_tag, property_crc, most_body, most_record, most_queues,
        )
    return found

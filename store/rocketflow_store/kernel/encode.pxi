# Rows of columns as records: see `records/encoding/encode.py`, which is the definition.

cdef enum:
    MOST_TEXTS = 8

cdef struct Texts:  # the values of one column of text, each written after its name
    const uint8_t *data
    const int32_t *ends  # one more than rows
    const uint8_t *valid  # a bitmap; NULL if no row is null
    int64_t first_bit
    const uint8_t *name
    int64_t name_size  # 0: the value has its name and its separators in itself


cdef inline bint text_of(const Texts *texts, int64_t row, const uint8_t **at, int64_t *size) noexcept nogil:
    """Find a row's value; return False if it is null or empty."""
    cdef int64_t bit = texts.first_bit + row
    size[0] = texts.ends[row + 1] - texts.ends[row]
    if size[0] == 0 or (texts.valid != NULL and not texts.valid[bit >> 3] >> (bit & 7) & 1):
        return False
    at[0] = texts.data + texts.ends[row]
    return True


cdef int take_offsets(const int32_t[::1] ends, int64_t count, int64_t size, const int32_t **taken) except -1:
    """Check that the offsets of `count` values are within `size` bytes; ValueError if not."""
    cdef int64_t row
    if ends.shape[0] != count + 1 or ends[0] < 0 or ends[count] > size:
        raise ValueError("offsets of a column are outside of its values")
    for row in range(count):
        if ends[row + 1] < ends[row]:
            raise ValueError("offsets of a column descend")
    taken[0] = &ends[0]
    return 0


cdef int take_texts(object given, int64_t count, Texts *texts, list kept) except -1:
    """Take a column, as (name, offsets, bytes, bitmap or None, first bit); `kept` gets its buffers."""
    cdef const int32_t[::1] ends = given[1]
    cdef const uint8_t[::1] data = given[2]
    cdef const uint8_t[::1] valid
    cdef const uint8_t[::1] name = given[0]
    take_offsets(ends, count, data.shape[0], &texts.ends)
    texts.data = &data[0] if data.shape[0] else NULL
    texts.valid, texts.first_bit = NULL, 0
    if given[3] is not None:
        valid = given[3]
        texts.first_bit = given[4]
        if texts.first_bit < 0 or texts.first_bit > valid.shape[0] * 8 - count:
            raise ValueError("a bitmap of a column is too short")
        texts.valid = &valid[0] if valid.shape[0] else NULL
        kept.append(valid)
    texts.name, texts.name_size = (&name[0] if name.shape[0] else NULL), name.shape[0]
    kept.extend((ends, data, name))
    return 0


cdef inline uint8_t *append_bytes(uint8_t *to, const uint8_t *at, int64_t size) noexcept nogil:
    if size:
        memcpy(to, at, size)
    return to + size


cdef inline uint64_t splitmix(uint64_t value) noexcept nogil:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u
    value = (value ^ value >> 27) * 0x94D049BB133111EBu
    return value ^ value >> 31


cdef class RowEncoder:
    """Encodes the rows of one chunk: `size` bytes of records and `keys` index entries at most.

    `written` are the columns of a row's properties, `ids` those of UNIQ_KEY, KEYS and TAGS or None. Without a column of
    UNIQ_KEYs `new_ids` (prefix, first tick) makes them, and their properties follow those written.
    """

    cdef readonly int64_t size, keys
    cdef int64_t count, most_id
    cdef const int32_t *body_ends
    cdef const uint8_t *bodies
    cdef const int32_t *topic_ends
    cdef Texts[MOST_TEXTS] written
    cdef Texts[3] ids
    cdef bint[3] with_ids
    cdef int texts, reserved
    cdef bint index
    cdef bytes prefix
    cdef uint64_t tick
    cdef list kept

    def __init__(self, body_ends, bodies, written, ids, new_ids, int reserved, bint index):
        """Take the columns; ValueError if their offsets are not those of their values."""
        cdef const int32_t[::1] ends = body_ends
        cdef const uint8_t[::1] data = bodies
        cdef const uint8_t *value
        cdef int64_t row, size, at
        cdef int text
        self.kept = [ends, data]
        self.count = ends.shape[0] - 1
        if self.count < 0 or reserved not in (0, CRC_PROPERTY_SIZE) or len(written) > MOST_TEXTS:
            raise ValueError("no rows")
        take_offsets(ends, self.count, data.shape[0], &self.body_ends)
        self.bodies = &data[0] if data.shape[0] else NULL
        self.texts, self.reserved, self.index = len(written), reserved, index
        for text in range(self.texts):
            take_texts(written[text], self.count, &self.written[text], self.kept)
        for text in range(3):
            self.with_ids[text] = ids[text] is not None
            if self.with_ids[text]:
                take_texts(ids[text], self.count, &self.ids[text], self.kept)
        self.prefix, self.tick = (b"", 0) if new_ids is None else new_ids
        self.most_id = 0 if new_ids is None else len(self.prefix) + 22
        self.size = self.count * (self.most_id + reserved) + ends[self.count] - ends[0]
        self.keys = 2 * self.count if index else 0
        with nogil:
            for row in range(self.count):
                for text in range(self.texts):
                    if text_of(&self.written[text], row, &value, &size):
                        self.size += size + (self.written[text].name_size + 1 if self.written[text].name_size else 0)
                if index and self.with_ids[1] and text_of(&self.ids[1], row, &value, &size):
                    self.keys += 1
                    for at in range(size):
                        self.keys += value[at] == 0x20

    def encode(
        self,
        const uint8_t[::1] head not None,
        const int32_t[::1] topic_ends not None,
        const uint8_t[::1] topic_parts not None,
        const uint32_t[:, ::1] topics not None,
        const int32_t[::1] topic_codes not None,
        const int32_t[::1] queue_ids not None,
        const int32_t[::1] flags,
        const int64_t[::1] born,
        uint8_t[::1] records not None,
        int64_t[::1] starts not None,
        int64_t[::1] sizes not None,
        int64_t[::1] body_crcs not None,
        int64_t[::1] tags_codes not None,
        int32_t[::1] hashes not None,
        int64_t[::1] of_row not None,
        uint8_t[::1] of_tag not None,
        uint64_t[::1] row_hashes,
        const int64_t[::1] hashed_born,
        const int32_t[::1] hashed_queues,
    ):
        """Write the records and their facts; return the number of index entries, -1 for rows that are not usual.

        `head` has the fixed fields that all rows share, `topic_parts` each topic with its length, `topics` its magic and
        the hashes of `topic#`, `topic#T#` and `topic`. `row_hashes` is None unless each row's content is hashed.
        """
        cdef int64_t count = self.count, head_size = head.shape[0], kinds = topics.shape[0]
        cdef int64_t row, size, at, begin, place = 0, entry = 0, needed = self.size
        cdef int64_t prefix_size = len(self.prefix)
        cdef int text, shift
        cdef int32_t code
        cdef uint32_t crc, state
        cdef uint64_t tick, mixed
        cdef uint8_t *to
        cdef uint8_t *record
        cdef uint8_t *properties
        cdef uint8_t *new_id = NULL
        cdef const uint8_t *value
        cdef const uint8_t *tags = NULL
        cdef int64_t tags_size = 0
        cdef const uint8_t *prefix = self.prefix
        cdef const uint8_t *digits = b"0123456789ABCDEF"
        cdef const Texts *texts
        cdef bint is_new = self.most_id > 0, is_tagged
        if head_size < HEAD_SIZE or topic_ends.shape[0] != kinds + 1 or topics.shape[1] != 4:
            raise ValueError("no head, or no topics")
        take_offsets(topic_ends, kinds, topic_parts.shape[0], &self.topic_ends)
        for size in (
            topic_codes.shape[0], queue_ids.shape[0], starts.shape[0], sizes.shape[0], body_crcs.shape[0],
            tags_codes.shape[0], count if flags is None else flags.shape[0], count if born is None else born.shape[0],
            count if row_hashes is None else row_hashes.shape[0],
            count if hashed_born is None else hashed_born.shape[0],
            count if hashed_queues is None else hashed_queues.shape[0],
        ):
            if size != count:
                raise ValueError("a column has another number of rows")
        for row in range(count):
            code = topic_codes[row]
            if not 0 <= code < kinds:
                raise ValueError("a row has no topic")
            needed += head_size + 2 + topic_ends[code + 1] - topic_ends[code]
        if records.shape[0] < needed or needed > 0x7FFFFFFF:
            raise ValueError("not enough space for the records")
        if min(hashes.shape[0], of_row.shape[0], of_tag.shape[0]) < self.keys:
            raise ValueError("not enough space")
        with nogil:
            for row in range(count):
                code = topic_codes[row]
                record = to = &records[0] + place
                to = append_bytes(to, &head[0], head_size)
                size = self.body_ends[row + 1] - self.body_ends[row]
                value = self.bodies + self.body_ends[row]
                to = append_bytes(to, value, size)
                crc = crc32_of(value, size) & 0x7FFFFFFFu
                body_crcs[row] = crc
                put32(record + 4, topics[code, 0])
                put32(record + 8, crc)
                put32(record + 12, <uint32_t>queue_ids[row])
                if flags is not None:
                    put32(record + 16, <uint32_t>flags[row])
                if born is not None:
                    put64(record + 40, <uint64_t>born[row])
                put32(record + head_size - 4, <uint32_t>size)
                to = append_bytes(to, &topic_parts[0] + topic_ends[code], topic_ends[code + 1] - topic_ends[code])
                to += 2
                properties = to
                for text in range(self.texts):
                    texts = &self.written[text]
                    if not text_of(texts, row, &value, &size):
                        continue
                    to = append_bytes(to, texts.name, texts.name_size)
                    to = append_bytes(to, value, size)
                    if texts.name_size:
                        to[0] = 2
                        to += 1
                if row_hashes is not None:
                    mixed = crc | <uint64_t>crc32_of(properties, to - properties) << 32
                    mixed = splitmix(mixed ^ topics[code, 3])
                    mixed = splitmix(mixed ^ <uint64_t>(self.body_ends[row + 1] - self.body_ends[row]))
                    mixed = splitmix(mixed ^ (0 if flags is None else <uint64_t><int64_t>flags[row]))
                    mixed = splitmix(mixed ^ (0 if hashed_born is None else <uint64_t>hashed_born[row]))
                    if hashed_queues is not None:
                        mixed = splitmix(mixed ^ <uint64_t><int64_t>hashed_queues[row])
                    row_hashes[row] = mixed
                if is_new:
                    to = append_bytes(to, b"UNIQ_KEY\x01", 9)
                    new_id = to
                    to = append_bytes(to, prefix, prefix_size)
                    tick = self.tick + <uint64_t>row
                    for shift in range(12):
                        to[shift] = digits[tick >> (44 - 4 * shift) & 15]
                    to[12] = 2
                    to += 13
                size = to - properties
                if size + self.reserved > 0x7FFF or (not self.reserved and size >= CRC_PROPERTY_SIZE and ends_like_crc(to)):
                    entry = -1
                    break
                if self.reserved:
                    memset(to, 0, CRC_PROPERTY_SIZE)
                    to += CRC_PROPERTY_SIZE
                put16(properties - 2, <uint32_t>(size + self.reserved))
                starts[row], sizes[row] = place, to - record
                put32(record, <uint32_t>(to - record))
                place += to - record
                tags_codes[row] = 0
                is_tagged = self.with_ids[2] and text_of(&self.ids[2], row, &tags, &tags_size)
                if is_tagged:
                    state = 0
                    if text_hash(&state, tags, tags_size) < 0:
                        entry = -1
                        break
                    tags_codes[row] = <int32_t>state
                if not self.index:
                    continue
                state = topics[code, 1]
                if is_new:
                    hashes[entry] = index_hash_of(java_hash(state, new_id, prefix_size + 12))
                    of_row[entry], of_tag[entry] = row, False
                    entry += 1
                elif self.with_ids[0] and text_of(&self.ids[0], row, &value, &size):
                    if text_hash(&state, value, size) < 0:
                        entry = -1
                        break
                    hashes[entry], of_row[entry], of_tag[entry] = index_hash_of(state), row, False
                    entry += 1
                if self.with_ids[1] and text_of(&self.ids[1], row, &value, &size):
                    begin = 0
                    for at in range(size + 1):
                        if at < size and value[at] != 0x20:
                            continue
                        if at > begin:
                            state = topics[code, 1]
                            if text_hash(&state, value + begin, at - begin) < 0:
                                entry = -1
                                break
                            hashes[entry], of_row[entry], of_tag[entry] = index_hash_of(state), row, False
                            entry += 1
                        begin = at + 1
                    if entry < 0:
                        break
                if is_tagged:
                    state = topics[code, 2]
                    text_hash(&state, tags, tags_size)
                    hashes[entry], of_row[entry], of_tag[entry] = index_hash_of(state), row, True
                    entry += 1
        return entry


cdef inline void put_record_crc(uint8_t *record, int64_t size) noexcept nogil:
    """Write the CRC of a record over everything before it, as its last property: the lowest digit is first."""
    cdef uint8_t *tail = record + size - CRC_PROPERTY_SIZE
    cdef uint32_t crc = crc32_of(record, size - CRC_PROPERTY_SIZE) & 0x7FFFFFFFu
    cdef int digit
    memcpy(tail, CRC_NAME, CRC_NAME_SIZE)
    for digit in range(10):
        tail[9 + digit] = 48 + crc % 10
        crc //= 10
    tail[19] = 2


def place_records(
    uint8_t[::1] octets not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] sizes not None,
    const int64_t[::1] phy_offsets not None,
    const int64_t[::1] queue_offsets not None,
    int64_t store_timestamp,
    bint property_crc,
):
    """Write the places, the store time and, with `property_crc`, the CRCs of records; return False if one is too short.

    Nothing is written then.
    """
    cdef int64_t row, at, end, count = starts.shape[0], reserved = CRC_PROPERTY_SIZE if property_crc else 0
    cdef uint8_t *record
    cdef bint whole = True
    if count != sizes.shape[0] or count != phy_offsets.shape[0] or count != queue_offsets.shape[0]:
        raise ValueError("a column has another number of rows")
    with nogil:
        for row in range(count):
            if (
                starts[row] < 0 or sizes[row] < HEAD_SIZE + reserved
                or starts[row] > octets.shape[0] - sizes[row]
            ):
                whole = False
                break
        if whole:
            for row in range(count):
                record = &octets[0] + starts[row]
                put64(record + 20, <uint64_t>queue_offsets[row])
                put64(record + 28, <uint64_t>phy_offsets[row])
                put64(record + (68 if get32(record + 36) & 0x10 else 56), <uint64_t>store_timestamp)
                if property_crc:
                    put_record_crc(record, sizes[row])
    return whole

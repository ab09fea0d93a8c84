# Messages and clients' batches as records: see `records/encoding/message_encoder.py`, which is the definition.

from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    object PyUnicode_FromStringAndSize(const char *text, Py_ssize_t size)

cdef enum:
    ENTRY_HEAD = 20  # of an entry of a batch, up to its body
    MOST_PROPERTIES = 0x7FFF
    MOST_TOPIC = 127  # of a record of the usual magic
    MOST_TOPICS = 4096
    NEW_ID = 66  # bytes of a new UNIQ_KEY of an IPv6 host with its name


cdef inline const uint8_t *octets_of(bytes data):
    return <const uint8_t *>PyBytes_AsString(data)


cdef inline void put_digits(uint8_t *to, uint64_t value, int digits) noexcept nogil:
    """Write the last hex digits of a number."""
    cdef const uint8_t *known = b"0123456789ABCDEF"
    cdef int one
    for one in range(digits):
        to[one] = known[value >> (4 * (digits - 1 - one)) & 15]


cdef inline void put_place(
    uint8_t *record, int64_t size, int64_t queue_offset, int64_t phy_offset, bint property_crc
) noexcept nogil:
    """Write the offsets of a record, and its CRC."""
    put64(record + 20, <uint64_t>queue_offset)
    put64(record + 28, <uint64_t>phy_offset)
    if property_crc:
        put_record_crc(record, size)


cdef struct RecordFacts:
    int64_t start
    int64_t size
    int64_t tags_code
    int64_t keys  # number of index entries

cdef class Records:
    """Records of one queue without their places, which follow each other: `count`, `size` bytes."""

    cdef readonly bytearray data
    cdef readonly int64_t count, size
    cdef int64_t keys, room
    cdef bint property_crc
    cdef RecordFacts *facts
    cdef int32_t *hashes
    cdef RecordFacts one
    cdef uint8_t[NEW_ID] new_id  # UNIQ_KEY for a message without one
    cdef int64_t new_id_size  # 0: the writer asks for a new one
    cdef int64_t tick  # of `new_id`
    cdef bint has_new_id

    def __dealloc__(self):
        if self.facts != &self.one:
            free(self.facts)
        free(self.hashes)

    cdef uint8_t *begin_one(self, int64_t size, bint property_crc) except NULL:
        """Begin a single record of `size` bytes, in the bytes of the one before if they are enough."""
        if self.data is None or len(self.data) < size:
            self.data = PyByteArray_FromStringAndSize(NULL, size)
        self.facts, self.count, self.size, self.keys = &self.one, 1, size, 0
        self.property_crc = property_crc
        self.one.start, self.one.size, self.one.tags_code = 0, size, 0
        return <uint8_t *>PyByteArray_AsString(self.data)

    def place(self, int64_t queue_offset, int64_t phy_offset):
        """Write the places of records of which the first is at these offsets.

        Return the units, the index hashes, and the physical offset of each hash's record.
        """
        cdef int64_t row, key, place, at = 0
        cdef uint8_t *data = <uint8_t *>PyByteArray_AsString(self.data)
        cdef uint8_t *record
        cdef RecordFacts *one
        cdef bytes units = PyBytes_FromStringAndSize(NULL, self.count * UNIT_SIZE)
        cdef uint8_t *unit = <uint8_t *>PyBytes_AsString(units)
        cdef list hashes = [], places = []
        for row in range(self.count):
            one = &self.facts[row]
            place = phy_offset + one.start
            record = data + one.start
            put_place(record, one.size, queue_offset + row, place, self.property_crc)
            put_unit(unit, place, one.size, one.tags_code)
            unit += UNIT_SIZE
            if one.keys:
                offset = place
                for key in range(at, at + one.keys):
                    hashes.append(self.hashes[key])
                    places.append(offset)
                at += one.keys
        return units, hashes, places

    def ids(self, prefix, int64_t phy_offset):
        """Return the offset message ids of the records, joined by commas, the first at `phy_offset`."""
        cdef bytes text = prefix.encode()
        cdef Py_ssize_t size = len(text), width = size + 17
        cdef bytearray joined = PyByteArray_FromStringAndSize(NULL, self.count * width)
        cdef uint8_t *to = <uint8_t *>PyByteArray_AsString(joined)
        cdef int64_t row
        for row in range(self.count):
            memcpy(to, octets_of(text), size)
            put_digits(to + size, <uint64_t>(phy_offset + self.facts[row].start), 16)
            to[width - 1] = 44
            to += width
        return joined[: len(joined) - 1].decode("ascii")

    cdef int add_hash(self, int32_t key_hash) except -1:
        cdef int32_t *more
        cdef int64_t room
        if self.keys == self.room:
            room = 2 * self.room + 8
            more = <int32_t *>malloc(room * sizeof(int32_t))
            if more == NULL:
                raise MemoryError
            if self.keys:
                memcpy(more, self.hashes, self.keys * sizeof(int32_t))
            free(self.hashes)
            self.hashes, self.room = more, room
        self.hashes[self.keys] = key_hash
        self.keys += 1
        return 0

    cdef int add_keys(self, uint32_t state, const uint8_t *at, int64_t size) except -1:
        """Add the hashes of keys that blanks separate; return 1 if one is no UTF-8."""
        cdef int64_t place, begin = 0
        cdef uint32_t found
        for place in range(size + 1):
            if place < size and at[place] != 0x20:
                continue
            if place > begin:
                found = state
                if text_hash(&found, at + begin, place - begin) < 0:
                    return 1
                self.add_hash(index_hash_of(found))
            begin = place + 1
        return 0


cdef class TopicFacts:
    cdef bytes part  # length and name
    cdef uint32_t state  # Java's hash of `topic#`
    cdef dict queues  # by id, `RouteQueue`: see `route.pxi`


cdef inline uint8_t *put_head(
    uint8_t *record, int64_t size, int64_t queue_id, int64_t flag, int64_t sys_flag, int64_t born, const uint8_t *born_host,
    int64_t store_timestamp, const uint8_t *store_host, int64_t reconsume_times, const uint8_t *body, int64_t body_size,
) noexcept nogil:
    """Write a record up to its topic, with IPv4 hosts and without its offsets; return where the topic begins."""
    put32(record, <uint32_t>size)
    put32(record + 4, MAGIC_V1)
    put32(record + 8, crc32_of(body, body_size) & 0x7FFFFFFFu)
    put32(record + 12, <uint32_t>queue_id)
    put32(record + 16, <uint32_t>flag)
    memset(record + 20, 0, 16)
    put32(record + 36, <uint32_t>sys_flag)
    put64(record + 40, <uint64_t>born)
    memcpy(record + 48, born_host, 8)
    put64(record + 56, <uint64_t>store_timestamp)
    memcpy(record + 64, store_host, 8)
    put32(record + 72, <uint32_t>reconsume_times)
    memset(record + 76, 0, 8)
    put32(record + 84, <uint32_t>body_size)
    return append_bytes(record + HEAD_SIZE, body, body_size)


cdef inline bint is_named(const uint8_t *at, int64_t size, const char *name, int64_t name_size) noexcept nogil:
    return size >= name_size and memcmp(at, name, name_size) == 0


cdef inline bint has_separator(const uint8_t *at, int64_t size) noexcept nogil:
    return memchr(at, 1, size) != NULL or memchr(at, 2, size) != NULL


cdef bint is_usual_name(const uint8_t *at, int64_t size) noexcept nogil:
    """Return True for the name of a property that the store neither reads nor writes."""
    return size > 0 and not (
        is_named(at, size, b"__", 2) or is_named(at, size, b"INNER_", 6) or is_named(at, size, b"TIMER_", 6)
        or is_named(at, size, b"DELAY", 5) or is_named(at, size, b"KEYS", 4) or is_named(at, size, b"TAGS", 4)
        or is_named(at, size, b"UNIQ_KEY", 8)
    )


cdef inline bint is_zero(object number):
    """Return True for the int 0 alone: None, an empty text or 0.0 are no numbers of a record."""
    return type(number) is int and not number


cdef const uint8_t *text_at(object text, int64_t *size) except? NULL:
    """Return the UTF-8 of a str without separators; NULL, without an error, for anything else."""
    cdef const char *at
    cdef Py_ssize_t found
    if type(text) is not str:
        return NULL
    try:
        at = PyUnicode_AsUTF8AndSize(text, &found)
    except UnicodeEncodeError:  # half of a surrogate pair, which is stored as "?"
        return NULL
    if has_separator(<const uint8_t *>at, found):
        return NULL
    size[0] = found
    return <const uint8_t *>at


cdef struct Span:
    const uint8_t *at
    int64_t size
    bint is_named  # True also if only empty values have the name


cdef void find_ids(const uint8_t *at, int64_t size, Span *ids) noexcept nogil:
    """Find UNIQ_KEY, KEYS and TAGS in a property string: of each the last value that is not empty."""
    cdef const uint8_t *end = at + size
    cdef const uint8_t *close
    cdef const uint8_t *value
    cdef int found
    for found in range(3):
        ids[found].at, ids[found].size, ids[found].is_named = NULL, 0, False
    while at < end:
        close = <const uint8_t *>memchr(at, 2, end - at)
        if close == NULL:
            close = end
        if is_named(at, close - at, b"UNIQ_KEY\x01", 9):
            found, value = 0, at + 9
        elif is_named(at, close - at, b"KEYS\x01", 5):
            found, value = 1, at + 5
        elif is_named(at, close - at, b"TAGS\x01", 5):
            found, value = 2, at + 5
        else:
            at = close + 1
            continue
        ids[found].is_named = True
        if close > value:
            ids[found].at, ids[found].size = value, close - value
        at = close + 1


cdef class MessageWriter:
    """Writes the records of usual messages under one configuration; all methods return None for what is left over.

    `check_topic(topic)` raises for a topic that nobody may send to; `next_id()` returns a new UNIQ_KEY.
    """

    cdef bytes host
    cdef int reserved
    cdef bint tag_entries, index
    cdef int64_t most_body, most_record
    cdef object check_topic, next_id
    cdef dict topics

    def __init__(self, bytes host, bint property_crc, bint tag_entries, int64_t most_body, int64_t most_record, check_topic, next_id):
        if len(host) != 8:
            raise ValueError("the host has no IPv4 address")
        self.host, self.reserved, self.tag_entries = host, CRC_PROPERTY_SIZE if property_crc else 0, tag_entries
        self.most_body, self.most_record = most_body, most_record
        self.check_topic, self.next_id, self.topics = check_topic, next_id, {}

    cdef TopicFacts topic_of(self, object topic):
        """Return what records of a topic share; None if it is too long, or no str. Raises as `check_topic`."""
        cdef TopicFacts found
        cdef bytes raw
        if type(topic) is not str:
            return None
        known = self.topics.get(topic)
        if known is None:
            self.check_topic(topic)
            raw = topic.encode()
            if len(raw) > MOST_TOPIC:
                return None
            found = TopicFacts()
            found.part = bytes((len(raw),)) + raw
            found.state = java_hash(java_hash(0, octets_of(raw), len(raw)), b"#", 1)
            found.queues = {}
            if len(self.topics) >= MOST_TOPICS:
                self.topics.clear()
            self.topics[topic] = known = found
        return <TopicFacts>known

    def message(self, message, int64_t queue_id, int64_t now):
        """Return the record of a usual `Message` as `Records`."""
        cdef TopicFacts topic = self.topic_of(message.topic)
        cdef Records records = Records()
        if topic is None or self.take(message, topic, queue_id, now, records):
            return None
        return records

    cdef int take(self, message, TopicFacts topic, int64_t queue_id, int64_t now, Records records) except -1:
        """Write the record of a usual `Message` to `records`; return 1 if it is left over."""
        cdef bytes body
        cdef const uint8_t *at
        cdef const uint8_t *keys = NULL
        cdef const uint8_t *tags = NULL
        cdef const uint8_t *shard = NULL
        cdef const uint8_t *uniq
        cdef uint8_t *to
        cdef uint8_t *begin
        cdef int64_t size, name_size, keys_size = 0, tags_size = 0, shard_size = 0, uniq_size = 0, properties_size = 0
        cdef int64_t born, flag, topic_size
        cdef uint32_t state
        if (
            type(message.body) is not bytes or queue_id < 0 or queue_id > 0x7FFFFFFF
            or message.delay_level or message.delay_s or message.delay_ms or message.deliver_at_ms
            or message.born_host is not None or not is_zero(message.sys_flag)
            or not is_zero(message.reconsume_times) or not is_zero(message.prepared_transaction_offset)
        ):
            return 1
        body = message.body
        if len(body) > self.most_body:
            return 1
        given, stamp = message.flag, message.born_timestamp
        if type(given) is not int or not -0x80000000 <= given < 0x80000000:
            return 1
        if stamp is not None and (type(stamp) is not int or not -(1 << 63) <= stamp < 1 << 63):
            return 1
        flag, born = given, now if stamp is None else stamp
        properties = message.properties
        if type(properties) is not dict:
            return 1
        pairs = list(properties.items())  # another thread may change it
        for name, value in pairs:
            at = text_at(name, &name_size)
            if at == NULL or not is_usual_name(at, name_size) or text_at(value, &size) == NULL:
                return 1
            properties_size += name_size + size + 2
        text = message.keys
        if text:
            if type(text) is not list:
                return 1
            for key in text:
                if type(key) is not str:
                    return 1
            key_text = text[0] if len(text) == 1 else " ".join(text)
            keys = text_at(key_text, &keys_size)
            if keys == NULL:
                return 1
            properties_size += keys_size + 6 if keys_size else 0
        tags_text = message.tags
        if tags_text:
            tags = text_at(tags_text, &tags_size)
            if tags == NULL:
                return 1
            properties_size += tags_size + 6
        shard_text = message.sharding_key
        if shard_text:
            shard = text_at(shard_text, &shard_size)
            if shard == NULL:
                return 1
            properties_size += shard_size + 15
        if properties_size > MOST_PROPERTIES - 128:
            return 1
        uniq_key = message.uniq_key
        records.has_new_id = not uniq_key and records.new_id_size
        if records.has_new_id:
            uniq, uniq_size = records.new_id, records.new_id_size
        else:
            uniq_key = uniq_key or self.next_id()
            uniq = text_at(uniq_key, &uniq_size)
            if uniq == NULL:
                return 1
        properties_size += uniq_size + 10
        topic_size = len(topic.part)
        size = HEAD_SIZE + len(body) + topic_size + 2 + properties_size + self.reserved
        if properties_size + self.reserved > MOST_PROPERTIES or size > self.most_record:
            return 1
        to = put_head(
            records.begin_one(size, self.reserved > 0), size, queue_id, flag, 0, born, octets_of(self.host), now,
            octets_of(self.host), 0, octets_of(body), len(body),
        )
        to = append_bytes(to, octets_of(topic.part), topic_size)
        put16(to, <uint32_t>(properties_size + self.reserved))
        to += 2
        begin = to
        for name, value in pairs:
            at = text_at(name, &size)
            to = append_bytes(to, at, size)
            to[0] = 1
            at = text_at(value, &size)
            to = append_bytes(to + 1, at, size)
            to[0] = 2
            to += 1
        to = put_property(to, b"KEYS\x01", 5, keys, keys_size)
        to = put_property(to, b"TAGS\x01", 5, tags, tags_size)
        to = put_property(to, b"__SHARDINGKEY\x01", 14, shard, shard_size)
        to = put_property(to, b"UNIQ_KEY\x01", 9, uniq, uniq_size)
        if not self.reserved and to - begin >= CRC_PROPERTY_SIZE and ends_like_crc(to):
            return 1
        return self.facts_of(records, &records.one, topic.state, uniq, uniq_size, keys, keys_size, tags, tags_size)

    def batch(
        self, topic_name, bytes body, bytes suffix, int64_t queue_id, int64_t sys_flag, int64_t born, bytes born_host,
        int64_t reconsume_times, int64_t now, int64_t most_properties, int64_t most,
    ):
        """Return the records of the entries of a client's batch as `Records`.

        `suffix` are the properties that each gets. An entry may have `most_properties` bytes of its own, all records
        `most` bytes.
        """
        cdef TopicFacts topic = self.topic_of(topic_name)
        cdef Records records
        cdef RecordFacts *one
        cdef const uint8_t *at = octets_of(body)
        cdef const uint8_t *own
        cdef const uint8_t *more = octets_of(suffix)
        cdef const uint8_t *uniq
        cdef const uint8_t *text
        cdef uint8_t *to
        cdef uint8_t *record
        cdef uint8_t *begin
        cdef int64_t end = len(body), place = 0, size, body_size, own_size, count = 0, fixed, room, missing = 0
        cdef int64_t topic_size, more_size = len(suffix), uniq_size = 0
        cdef Span[3] ids
        cdef list new_ids
        if (
            topic is None or len(born_host) != 8 or not 0 <= queue_id <= 0x7FFFFFFF
            or not -0x80000000 <= sys_flag < 0x80000000 or not -0x80000000 <= reconsume_times < 0x80000000
        ):
            return None
        while place < end:
            if end - place < ENTRY_HEAD + 2:
                return None
            size, body_size = <int32_t>get32(at + place), <int32_t>get32(at + place + 16)
            if body_size < 0 or body_size > end - place - ENTRY_HEAD - 2:
                return None
            own_size = get16(at + place + ENTRY_HEAD + body_size)
            if size != ENTRY_HEAD + 2 + body_size + own_size or size > end - place or own_size > most_properties:
                return None
            own = at + place + ENTRY_HEAD + body_size + 2
            find_ids(own, own_size, ids)
            missing += not ids[0].is_named
            place += size
            count += 1
        topic_size = len(topic.part)
        fixed = HEAD_SIZE + topic_size + 2 + more_size + self.reserved + 1 + NEW_ID
        room = end + count * (fixed - ENTRY_HEAD - 2)
        if count == 0 or room + count > most:  # a length of the topic has two bytes there
            return None
        new_ids = [self.next_id() for _ in range(missing)]
        records = Records()
        records.facts = <RecordFacts *>malloc(count * sizeof(RecordFacts))
        if records.facts == NULL:
            raise MemoryError
        records.count, records.property_crc = count, self.reserved > 0
        records.data = PyByteArray_FromStringAndSize(NULL, room)
        record = <uint8_t *>PyByteArray_AsString(records.data)
        place, count, missing = 0, 0, 0
        while place < end:
            size, body_size = <int32_t>get32(at + place), <int32_t>get32(at + place + 16)
            own_size = size - ENTRY_HEAD - 2 - body_size
            own = at + place + ENTRY_HEAD + body_size + 2
            to = put_head(
                record, 0, queue_id, <int32_t>get32(at + place + 12), sys_flag, born, octets_of(born_host), now,
                octets_of(self.host), reconsume_times, at + place + ENTRY_HEAD, body_size,
            )
            to = append_bytes(to, octets_of(topic.part), topic_size) + 2
            begin = to
            to = append_bytes(to, own, own_size)
            find_ids(own, own_size, ids)
            if not ids[0].is_named:
                if own_size and to[-1] != 2:
                    to[0] = 2
                    to += 1
                new_id = new_ids[missing]
                missing += 1
                uniq = text_at(new_id, &uniq_size)
                if uniq == NULL or uniq_size + 10 > NEW_ID:
                    return None
                to = put_property(to, b"UNIQ_KEY\x01", 9, uniq, uniq_size)
            elif (more_size or self.reserved) and to[-1] != 2:  # writers before 5.2 omit the last separator
                to[0] = 2
                to += 1
            to = append_bytes(to, more, more_size)
            if not self.reserved and (to == begin or to[-1] == 0 or to - begin >= CRC_PROPERTY_SIZE and ends_like_crc(to)):
                return None
            if to - begin + self.reserved > MOST_PROPERTIES:
                return None
            put16(begin - 2, <uint32_t>(to - begin + self.reserved))
            find_ids(begin, to - begin, ids)
            to += self.reserved
            one = &records.facts[count]
            one.start, one.size = records.size, to - record
            put32(record, <uint32_t>one.size)
            if one.size > self.most_record or self.facts_of(
                records, one, topic.state, ids[0].at, ids[0].size, ids[1].at, ids[1].size, ids[2].at, ids[2].size
            ):
                return None
            records.size += one.size
            record = to
            place += size
            count += 1
        del records.data[records.size:]
        return records

    cdef int facts_of(
        self, Records records, RecordFacts *one, uint32_t topic, const uint8_t *uniq, int64_t uniq_size,
        const uint8_t *keys, int64_t keys_size, const uint8_t *tags, int64_t tags_size,
    ) except -1:
        """Add the tags code and the index hashes of a record; return 1 if a text is no UTF-8."""
        cdef uint32_t state = 0
        cdef int64_t before = records.keys
        one.tags_code = 0
        if tags_size:
            if text_hash(&state, tags, tags_size) < 0:
                return 1
            one.tags_code = <int32_t>state
        if uniq_size:
            state = topic
            if text_hash(&state, uniq, uniq_size) < 0:
                return 1
            records.add_hash(index_hash_of(state))
        if keys_size and records.add_keys(topic, keys, keys_size):
            return 1
        if tags_size and self.tag_entries:
            state = java_hash(topic, b"T#", 2)
            text_hash(&state, tags, tags_size)
            records.add_hash(index_hash_of(state))
        one.keys = records.keys - before
        return 0


cdef inline uint8_t *put_property(
    uint8_t *to, const uint8_t *name, int64_t name_size, const uint8_t *value, int64_t value_size
) noexcept nogil:
    """Write a property, `name` with its separator, unless the value is empty."""
    if value_size == 0:
        return to
    to = append_bytes(append_bytes(to, name, name_size), value, value_size)
    to[0] = 2
    return to + 1

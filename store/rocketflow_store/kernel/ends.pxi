"""Usual ends of transactions (request 37), and the messages that their commits store.

The rules are those of the broker's `TransactionEnds` and of `RawEncoder`, whose answer to everything else counts. The half
message is a record that `SentRecords.halves` has given: it has none of the properties that the broker gives to copies.
"""

cdef enum:
    ONE_WAY_FLAG = 2
    COMMIT_FLAG = 8
    PREPARED_AT = 76             # in a record, without what IPv6 hosts add
    GROUP_NAME = 0               # places of HALF_NAMES
    TOPIC_NAME = 1
    QUEUE_NAME = 2
    UNIQ_NAME = 3
    KEYS_NAME = 4
    TAGS_NAME = 5
    IMMUNITY_NAME = 6

HALF_NAMES = (b"PGROUP", b"REAL_TOPIC", b"REAL_QID", b"UNIQ_KEY", b"KEYS", b"TAGS", b"CHECK_IMMUNITY_TIME_IN_SECONDS")

cdef enum:                       # fields of an end's header, by their places in ENDING_NAMES
    END_GROUP = 0
    END_HALF = 2
    END_LOG = 3
    END_KIND = 4
    END_NEEDED = 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6


cdef int take_ending(SentRecords records, SendHeader *header, int64_t frame, int64_t frame_end) noexcept nogil:
    """Note the end of a transaction; 0: it is left over."""
    cdef int64_t most = 999999999999999999, kind
    cdef Ending *one
    if header.flag not in (0, ONE_WAY_FLAG) or header.fields & END_NEEDED != END_NEEDED:
        return 0
    if records.ending_count >= records.maker.max_endings:
        return 0
    records.endings = <Ending *> with_room(
        records.endings, records.ending_count + 1, &records.endings_room, sizeof(Ending)
    )
    if records.endings_room <= records.ending_count:
        return 0
    one = &records.endings[records.ending_count]
    if not (
        decimal(header.texts[END_HALF].at, header.texts[END_HALF].size, 0, most, &one.half_offset)
        and decimal(header.texts[END_LOG].at, header.texts[END_LOG].size, 0, most, &one.log_offset)
        and decimal(header.texts[END_KIND].at, header.texts[END_KIND].size, COMMIT_FLAG, TRANSACTION_FLAGS, &kind)
        and (kind == COMMIT_FLAG or kind == TRANSACTION_FLAGS)
    ):
        return 0
    one.is_commit, one.is_one_way = kind == COMMIT_FLAG, header.flag == ONE_WAY_FLAG
    one.group.at, one.group.size = header.texts[END_GROUP].at, header.texts[END_GROUP].size
    one.frame, one.frame_end = frame, frame_end
    records.ending_count += 1
    return 1


cdef tuple end_halves(SentRecords given, list halves):
    """End half messages: see `SentRecords.end_halves`."""
    cdef SentRecords commits = SentRecords.__new__(SentRecords)
    cdef Ending *ending
    cdef int64_t i
    cdef int topic
    cdef list committed = [], rolled_back = [], left = [], asking = [[], []]
    cdef dict births = {}
    commits.data, commits.maker, commits.names = b"", given.maker, given.maker.names
    for i in range(given.ending_count):
        ending = &given.endings[i]
        half = halves[i]
        topic = -1
        if half is not None:
            topic = end_half(given.maker, commits, ending, <const uint8_t *> PyBytes_AsString(half), len(half))
        if topic < 0:
            left.append(given.data[ending.frame:ending.frame_end])
            continue
        if not ending.is_one_way:
            asking[0 if ending.is_commit else 1].append(given.data[ending.frame:ending.frame_end])
        (committed if ending.is_commit else rolled_back).append(ending.half_offset)
        kind = commits.names[topic], bool(ending.is_commit)
        if kind not in births:
            births[kind] = []
        births[kind].append(<int64_t> get64(<const uint8_t *> PyBytes_AsString(half) + 40))
    asked = b"".join(asking[0]), b"".join(asking[1])
    return commits if commits.count else None, committed, rolled_back, births, asked, b"".join(left)


cdef int end_half(
    SendFrames maker, SentRecords commits, const Ending *ending, const uint8_t *half, int64_t size
) noexcept nogil:
    """End a half message, and write the record of its commit after the others; return its topic's number.

    -1: it is left over.
    """
    cdef RecordParts parts
    cdef Text values[8]
    cdef TaughtTopic *known
    cdef int topic, place, slot
    cdef int64_t queue
    if not parts_of_record(half, size, &parts) or get32(half + 4) != MAGIC_V1:
        return -1
    if <int64_t> get64(half + 20) != ending.half_offset or <int64_t> get64(half + 28) != ending.log_offset:
        return -1
    find_properties(&parts, &maker.half_names, values)
    if values[GROUP_NAME].at == NULL or values[TOPIC_NAME].at == NULL or values[QUEUE_NAME].at == NULL:
        return -1
    if values[UNIQ_NAME].at == NULL or values[IMMUNITY_NAME].at != NULL:
        return -1
    if values[GROUP_NAME].size != ending.group.size:
        return -1
    if memcmp(values[GROUP_NAME].at, ending.group.at, <size_t> ending.group.size) != 0:
        return -1
    if not decimal(values[QUEUE_NAME].at, values[QUEUE_NAME].size, 0, MOST_QUEUES - 1, &queue):
        return -1
    topic = maker.find(values[TOPIC_NAME].at, values[TOPIC_NAME].size, &place)
    if topic < 0:
        return -1
    known = &maker.topics[topic]
    if not known.queues[queue >> 6] >> (queue & 63) & 1:
        return -1
    if not ending.is_commit:
        return topic
    if not is_ascii(values[TAGS_NAME].at, values[TAGS_NAME].size):
        return -1
    size += known.size - parts.topic_size
    if size > maker.max_record:
        return -1
    if commits.count and commits.body_size + parts.body_size > maker.max_commit_bytes:
        return -1
    if not commits.has_room(size, 1, 0) or not commits.name(topic):
        return -1
    slot = commits.slot_of(topic, <int> queue)
    if slot < 0:
        return -1
    put_commit(commits, slot, &parts, values, ending.log_offset, size)
    return topic


cdef inline void move_value(Value *value, const Text *text, const uint8_t *record, int64_t to) noexcept nogil:
    """Set a value of a record that has moved in the arena; without the text it is empty."""
    value.at = to + (text.at - record) if text.at != NULL else 0
    value.size = text.size


cdef void put_commit(
    SentRecords commits, int slot, const RecordParts *parts, const Text *values, int64_t log_offset, int64_t size
) noexcept nogil:
    """Write the record of a commit after the others: that of its half message, in the queue that it names."""
    cdef TaughtTopic *known = &commits.maker.topics[commits.slots[slot].topic]
    cdef const uint8_t *rest = parts.record + parts.topic + parts.topic_size
    cdef uint8_t *record = commits.arena + commits.used
    cdef int64_t moved = commits.used + known.size - parts.topic_size
    cdef SentOne *one = &commits.ones[commits.count]
    cdef SentRequest *request = &commits.requests[commits.request_count]
    memcpy(record, parts.record, <size_t> (parts.topic - 1))
    record[parts.topic - 1] = <uint8_t> known.size
    memcpy(record + parts.topic, known.name, <size_t> known.size)
    memcpy(record + parts.topic + known.size, rest, <size_t> (parts.record + parts.size - rest))
    put32(record, <uint32_t> size)
    put32(record + 12, <uint32_t> commits.slots[slot].queue)
    put32(record + 36, parts.sys_flag & ~<uint32_t> TRANSACTION_FLAGS | COMMIT_FLAG)
    put64(record + PREPARED_AT + parts.hosts_more, <uint64_t> log_offset)
    move_value(&one.uniq, &values[UNIQ_NAME], parts.record, moved)
    move_value(&one.keys, &values[KEYS_NAME], parts.record, moved)
    move_value(&one.tags, &values[TAGS_NAME], parts.record, moved)
    one.record, one.size, one.slot, one.is_half, one.level = commits.used, size, slot, 0, 0
    one.queue_offset = one.phy_offset = -1
    one.tags_code = <int32_t> java_hash(0, values[TAGS_NAME].at, <size_t> values[TAGS_NAME].size)
    memset(request, 0, sizeof(SentRequest))
    request.first, request.count, request.size = commits.count, 1, size
    request.topic, request.queue = commits.slots[slot].topic, commits.slots[slot].queue
    commits.slots[slot].count += 1
    commits.used += size
    commits.body_size += parts.body_size
    commits.count += 1
    commits.request_count += 1

"""Usual sends (requests 10, 310 and 320): from frames to records without their place, and to answers.

Ends of transactions that come between them are taken along: see `ends.pxi`.

The rules are those of the broker's `Sends` and of `RawEncoder`, whose answer to everything else counts: a frame that is
not usual in every byte is left over.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdlib cimport free, realloc
from libc.string cimport memset, strlen

cdef enum:
    SEND = 10
    SEND_V2 = 310
    SEND_BATCH = 320
    END_TRANSACTION = 37
    MOST_TAUGHT = 512
    TOPIC_PLACES = 2048          # of the hash table, a power of two
    MOST_QUEUES = 1024
    MOST_SLOTS = 64              # queues of one run
    LEFT_FLAGS = 128             # an inner batch: see RawEncoder
    LEFT_BATCH_FLAGS = 128 | 12 | 16 | 32  # further transactions, IPv6 hosts: see CompiledMessages
    HALF_FLAG = 4
    TRANSACTION_FLAGS = 12
    HALF_TOPIC = 0               # the number of the topic that half messages are stored under
    DELAY_TOPIC = 1              # and that of messages with a delay level
    WAITING_ROOM = 128           # bytes of what such a message gets beside its topic, and of the other topic's name
    MOST_LEVELS = 64
    BINARY_OPAQUE = 5            # places in a ROCKETMQ header
    BINARY_FLAG = 9
    BINARY_REMARK = 13           # its size: a usual request has none
    BINARY_SIZE = 17             # that of the fields
    BINARY_FIELDS = 21

cdef const char *LONG_NAMES[16]
LONG_NAMES[:] = [
    b"producerGroup", b"topic", b"defaultTopic", b"defaultTopicQueueNums", b"queueId", b"sysFlag", b"bornTimestamp",
    b"flag", b"properties", b"reconsumeTimes", b"unitMode", b"maxReconsumeTimes", b"batch", b"bname", b"AccessKey",
    b"Signature",
]

# the fields that a client signs, in the order of their names: as letters, and as they are in request 10
cdef int LETTERS_SIGNED[15]
LETTERS_SIGNED[:] = [14, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
cdef int LONG_SIGNED[15]
LONG_SIGNED[:] = [14, 12, 13, 6, 2, 3, 7, 11, 0, 8, 4, 9, 5, 1, 10]

cdef const char *ENDING_NAMES[13]
ENDING_NAMES[:] = [
    b"producerGroup", b"topic", b"tranStateTableOffset", b"commitLogOffset", b"commitOrRollback",
    b"fromTransactionCheck", b"msgId", b"transactionId", b"ns", b"nsd", b"bname", b"oway", b"lo",
]

cdef enum:                       # fields of a send's header, by letter
    TOPIC_FIELD = 1
    QUEUE_FIELD = 4
    SYS_FLAG_FIELD = 5
    BORN_FIELD = 6
    FLAG_FIELD = 7
    PROPERTIES_FIELD = 8
    TIMES_FIELD = 9
    UNIT_FIELD = 10
    BATCH_FIELD = 12
    LETTER_COUNT = 14
    ACCESS_FIELD = 14            # of clients with an account
    SIGNATURE_FIELD = 15
    SIGNED_COUNT = 15
    FIELD_COUNT = 16
    ENDING_COUNT = 13
    NEEDED_FIELDS = 0xFF         # a to h

cdef struct TaughtTopic:
    uint8_t name[128]
    int32_t size
    uint32_t hash                # of `name#`
    uint64_t queues[16]          # a bit for each queue that is taught

cdef struct HeaderText:
    const uint8_t *at
    int64_t size
    int escaped                  # of JSON

cdef struct SendHeader:
    int64_t code
    int64_t flag
    int64_t opaque
    uint32_t members
    uint32_t fields
    HeaderText texts[16]

cdef struct Value:
    int64_t at                   # in the arena
    int64_t size

cdef enum:                       # types of messages, as RocketMQ counts them
    NORMAL_KIND = 0
    FIFO_KIND = 1
    DELAY_KIND = 2

cdef struct SentRequest:
    int64_t frame                # where its frame begins and ends in the data
    int64_t frame_end
    int64_t first                # of its records
    int64_t count
    int64_t size                 # of its records in bytes
    int64_t counted              # bytes that its client sent: body and properties, with what the broker adds to all
    Value uniq                   # in the texts
    int32_t opaque
    int32_t is_binary            # its header, and that of its answer
    int32_t is_one_way
    int32_t kind
    int32_t topic                # that it names: half and delayed messages are stored under another
    int32_t queue

cdef struct Ending:               # the end of a transaction
    int64_t frame
    int64_t frame_end
    int64_t half_offset
    int64_t log_offset
    Text group                   # in the data
    int32_t is_commit
    int32_t is_one_way

cdef struct SentOne:
    int64_t record               # in the arena
    int64_t size
    int64_t queue_offset
    int64_t phy_offset
    Value uniq
    Value keys
    Value tags
    int64_t tags_code            # of a delayed message the time at which it is due, from `begin` on
    int32_t slot
    int32_t kind
    int32_t is_half              # its properties say so
    int32_t level                # of its delay, 0 without

cdef struct SentFacts:           # of the records of a request
    int topic
    int64_t queue
    int32_t is_half
    int32_t may_delay
    int32_t level                # of its delay, 0 without
    int64_t waiting_size         # bytes of the properties that a half or delayed message gets
    int named_topic              # those that the request names
    int64_t named_queue
    int64_t sys_flag
    int64_t born_ms
    int64_t times
    const uint8_t *born
    int64_t born_size

cdef struct Slot:
    int32_t topic
    int32_t queue
    uint32_t hash                # of `topic#`
    int64_t count
    int64_t first


cdef inline int may_be_usual(const uint8_t *at, int64_t size) noexcept nogil:
    """Whether a frame may be a usual one: clients write the code first."""
    if size < 20:
        return 0
    if at[4] == 1:
        return get16(at + 8) in (SEND, SEND_V2, SEND_BATCH, END_TRANSACTION)
    return memcmp(at + 8, b'{"code":', 8) == 0 and (
        memcmp(at + 16, b"310,", 4) == 0 or memcmp(at + 16, b"320,", 4) == 0 or memcmp(at + 16, b"10,", 3) == 0
        or memcmp(at + 16, b"37,", 3) == 0
    )


cdef inline int is_text(const uint8_t *at, int64_t size, const char *text, int64_t text_size) noexcept nogil:
    return size == text_size and memcmp(at, text, <size_t> text_size) == 0


cdef const uint8_t *end_of_text(const uint8_t *at, const uint8_t *end, int *escaped, int *wide) noexcept nogil:
    """The quote that ends a JSON text whose first byte is at `at`; NULL without one."""
    escaped[0] = 0
    while at < end:
        if at[0] == c'"':
            return at
        if at[0] == c'\\':
            escaped[0] = 1
            at += 2
            continue
        if at[0] < 32:
            return NULL
        if at[0] >= 128:
            wide[0] = 1
        at += 1
    return NULL


cdef int decimal(const uint8_t *at, int64_t size, int64_t least, int64_t most, int64_t *value) noexcept nogil:
    """A number as Java writes it: no plus, no leading zeros, no more than 18 digits."""
    cdef int64_t i = 0, found = 0
    cdef int negative = size > 0 and at[0] == c'-'
    if negative:
        i = 1
    if size - i < 1 or size - i > 18 or (at[i] == c'0' and size > 1):
        return 0
    while i < size:
        if not c'0' <= at[i] <= c'9':
            return 0
        found = found * 10 + (at[i] - c'0')
        i += 1
    if negative:
        found = -found
    value[0] = found
    return least <= found <= most


cdef inline int is_int32(HeaderText *text, int64_t *value) noexcept nogil:
    return not text.escaped and decimal(text.at, text.size, -2147483648, 2147483647, value)


cdef inline int is_bool(HeaderText *text) noexcept nogil:
    return is_text(text.at, text.size, b"true", 4) or is_text(text.at, text.size, b"false", 5)


cdef int parse_json_header(const uint8_t *at, const uint8_t *end, SendHeader *header) noexcept nogil:
    """Parse a JSON header without spaces, whose members and fields have known names; 0: it is left over."""
    cdef const uint8_t *begin = at
    cdef const uint8_t *stop
    cdef const uint8_t *name
    cdef int64_t size, value
    cdef int escaped, wide = 0
    cdef uint32_t member
    header.members = header.fields = 0
    header.code = header.flag = 0
    if end - at < 2 or at[0] != c'{':
        return 0
    at += 1
    while True:
        if at >= end or at[0] != c'"':
            return 0
        name = at + 1
        stop = end_of_text(name, end, &escaped, &wide)
        if stop == NULL or escaped or end - stop < 3 or stop[1] != c':':
            return 0
        size = stop - name
        at = stop + 2
        if at[0] == c'"':
            stop = end_of_text(at + 1, end, &escaped, &wide)
            if stop == NULL or escaped:
                return 0
            if is_text(name, size, b"language", 8):
                member = 1
            elif is_text(name, size, b"remark", 6):
                member = 128
            elif is_text(name, size, b"serializeTypeCurrentRPC", 23):
                member = 2
            else:
                return 0
            at = stop + 1
        elif at[0] == c'{':
            member = 4
            if not is_text(name, size, b"extFields", 9):
                return 0
            at = parse_json_fields(at + 1, end, header, &wide)
            if at == NULL:
                return 0
        else:
            stop = at
            while stop < end and (stop[0] == c'-' or c'0' <= stop[0] <= c'9'):
                stop += 1
            if not decimal(at, stop - at, -2147483648, 2147483647, &value):
                return 0
            at = stop
            if is_text(name, size, b"code", 4):
                member = 8
                header.code = value
            elif is_text(name, size, b"flag", 4):
                member = 16
                header.flag = value
            elif is_text(name, size, b"opaque", 6):
                member = 32
                header.opaque = value
            elif is_text(name, size, b"version", 7):
                member = 64
            else:
                return 0
        if header.members & member or at >= end:
            return 0
        header.members |= member
        if at[0] == c'}':
            break
        if at[0] != c',':
            return 0
        at += 1
    if at + 1 != end or header.members & (4 | 8 | 32) != 4 | 8 | 32:
        return 0
    return not wide or is_utf8(begin, end - begin)


cdef int parse_binary_header(const uint8_t *at, const uint8_t *end, SendHeader *header) noexcept nogil:
    """Parse a ROCKETMQ header without a remark, whose fields have known names; 0: it is left over."""
    cdef const uint8_t *name
    cdef int64_t size
    cdef int field
    cdef HeaderText *text
    if end - at < BINARY_FIELDS or get32(at + BINARY_REMARK) != 0:
        return 0
    if get32(at + BINARY_SIZE) != <uint64_t> (end - at - BINARY_FIELDS):
        return 0
    header.code = get16(at)
    header.opaque = <int32_t> get32(at + BINARY_OPAQUE)
    header.flag = <int32_t> get32(at + BINARY_FLAG)
    header.fields = 0
    at += BINARY_FIELDS
    while at < end:
        if end - at < 2:
            return 0
        size = get16(at)
        name = at + 2
        if size > end - name - 4:
            return 0
        field = field_of(name, size, header.code)
        if field < 0:
            return 0
        at = name + size + 4
        size = <int32_t> get32(at - 4)
        if size < 0 or size > end - at or not (is_ascii(at, size) or is_utf8(at, size)):
            return 0
        header.fields |= 1u << field
        text = &header.texts[field]      # of a field that comes twice the last value counts
        text.at, text.size, text.escaped = at, size, 0
        at += size
    return 1


cdef inline int parse_header(const uint8_t *at, const uint8_t *end, int is_binary, SendHeader *header) noexcept nogil:
    return parse_binary_header(at, end, header) if is_binary else parse_json_header(at, end, header)


cdef int field_of(const uint8_t *name, int64_t size, int64_t code) noexcept nogil:
    """The number of a field, -1 for another name: requests 310 and 320 have a letter for most, others its name."""
    cdef int field, first = 0, count = FIELD_COUNT
    cdef const char **names = LONG_NAMES
    if code == END_TRANSACTION:
        names, count = ENDING_NAMES, ENDING_COUNT
    elif code != SEND:
        if size == 1:
            field = name[0] - c'a'
            return field if field < LETTER_COUNT else -1
        first = LETTER_COUNT
    for field in range(first, count):
        if is_text(name, size, names[field], strlen(names[field])):
            return field
    return -1


cdef const uint8_t *parse_json_fields(
    const uint8_t *at, const uint8_t *end, SendHeader *header, int *wide
) noexcept nogil:
    """Parse the fields up to their closing brace, and return what follows it; NULL: they are left over."""
    cdef const uint8_t *stop
    cdef int field
    cdef HeaderText *text
    while True:
        if at >= end or at[0] != c'"':
            return NULL
        stop = <const uint8_t *> memchr(at + 1, c'"', end - at - 1)
        if stop == NULL or end - stop < 3 or stop[1] != c':' or stop[2] != c'"':
            return NULL
        field = field_of(at + 1, stop - at - 1, header.code)
        if field < 0 or header.fields & (1u << field):
            return NULL
        header.fields |= 1u << field
        text = &header.texts[field]
        text.at = stop + 3
        stop = end_of_text(text.at, end, &text.escaped, wide)
        if stop == NULL or (text.escaped and (field != PROPERTIES_FIELD or header.code == END_TRANSACTION)):
            return NULL
        text.size = stop - text.at
        at = stop + 1
        if at >= end:
            return NULL
        if at[0] == c'}':
            return at + 1
        if at[0] != c',':
            return NULL
        at += 1


cdef inline int hex_digit(uint8_t octet) noexcept nogil:
    if c'0' <= octet <= c'9':
        return octet - c'0'
    octet |= 32
    return octet - c'a' + 10 if c'a' <= octet <= c'f' else -1


cdef int64_t unescaped(HeaderText *text, uint8_t *out) noexcept nogil:
    """Write a text without its escapes, which are ASCII, and return its size; -1: it is left over."""
    cdef int64_t i = 0, size = 0
    cdef int value, digit, k
    cdef uint8_t octet
    if not text.escaped:
        memcpy(out, text.at, <size_t> text.size)
        return text.size
    while i < text.size:
        octet = text.at[i]
        i += 1
        if octet == c'\\':
            if i >= text.size:
                return -1
            octet = text.at[i]
            i += 1
            if octet == c'u':
                if text.size - i < 4:
                    return -1
                value = 0
                for k in range(4):
                    digit = hex_digit(text.at[i + k])
                    if digit < 0:
                        return -1
                    value = value * 16 + digit
                if value >= 128:
                    return -1
                i += 4
                octet = <uint8_t> value
            elif octet != c'"' and octet != c'\\' and octet != c'/':
                return -1
        out[size] = octet
        size += 1
    return size


cdef int begins_with(const uint8_t *at, int64_t size, const char *text, int64_t text_size) noexcept nogil:
    return size >= text_size and memcmp(at, text, <size_t> text_size) == 0


cdef int ends_with(const uint8_t *at, int64_t size, const char *text, int64_t text_size) noexcept nogil:
    return size >= text_size and memcmp(at + size - text_size, text, <size_t> text_size) == 0


cdef int is_left_over(const uint8_t *name, int64_t size) noexcept nogil:
    """Whether a property changes the record, its queue or the answer: all that a broker or store sets or acts on."""
    return (
        is_text(name, size, b"__CRC32#", 8)
        or begins_with(name, size, b"__RMQ.TRANSIENT.", 16)
        or begins_with(name, size, b"TIMER_", 6)
        or begins_with(name, size, b"INNER_", 6)
        or is_text(name, size, b"__STARTDELIVERTIME", 18)
        or is_text(name, size, b"POP_CK", 6)
        or is_text(name, size, b"MSG_REGION", 10)
        or is_text(name, size, b"TRACE_ON", 8)
        or is_text(name, size, b"CLUSTER", 7)
        or ends_with(name, size, b"TRAN_MSG", 8)               # a broker looks for the name's end
        or ends_with(name, size, b"REPLY_TO_CLIENT", 15)
    )


cdef int is_true(const uint8_t *at, int64_t size) noexcept nogil:
    """Whether a text is "true", in whatever case."""
    return size == 4 and at[0] | 32 == c't' and at[1] | 32 == c'r' and at[2] | 32 == c'u' and at[3] | 32 == c'e'


cdef int is_of_half(const uint8_t *name, int64_t size) noexcept nogil:
    """Whether the broker alone gives a half message a property: see `OF_HALF` of its transactions."""
    return (
        is_text(name, size, b"REAL_TOPIC", 10)
        or is_text(name, size, b"REAL_QID", 8)
        or is_text(name, size, b"__transactionId__", 17)
        or is_text(name, size, b"TRANSACTION_CHECK_TIMES", 23)
        or is_text(name, size, b"TRAN_PREPARED_QUEUE_OFFSET", 26)
        or is_text(name, size, b"TRAN_FIRST_QUEUE_OFFSET", 23)
    )


cdef int may_be_delayed(const uint8_t *at, int64_t size) noexcept nogil:
    """Whether a property string stays as it is when a delayed message gets further properties.

    It does if each name comes once and has a value, and none is REAL_TOPIC or REAL_QID. Its names and values end as
    `take_properties` has checked.
    """
    cdef const uint8_t *end = at + size
    cdef const uint8_t *middle
    cdef const uint8_t *stop
    cdef const uint8_t *other
    while at < end:
        middle = <const uint8_t *> memchr(at, 1, end - at)
        stop = <const uint8_t *> memchr(middle, 2, end - middle)
        if stop == middle + 1:
            return 0
        if is_text(at, middle - at, b"REAL_TOPIC", 10) or is_text(at, middle - at, b"REAL_QID", 8):
            return 0
        other = stop + 1
        while other < end:
            if end - other > middle - at and memcmp(other, at, middle + 1 - at) == 0:
                return 0
            other = <const uint8_t *> memchr(other, 2, end - other) + 1
        at = stop + 1
    return 1


cdef int take_properties(
    uint8_t *arena, int64_t begin, int64_t size, SentOne *one, int is_half, int64_t most_levels
) noexcept nogil:
    """Find the facts of a property string: name 1 value 2, each with both; 0: it is left over.

    With `is_half` it has to be that of a half message, else that of another one. `most_levels` is the last delay level.
    """
    cdef const uint8_t *at = arena + begin
    cdef const uint8_t *end = at + size
    cdef const uint8_t *middle
    cdef const uint8_t *stop
    cdef int64_t name_size, level
    cdef Value *fact
    one.uniq.at = one.keys.at = one.tags.at = one.uniq.size = one.keys.size = one.tags.size = 0
    one.is_half = one.level = 0
    one.kind = NORMAL_KIND
    while at < end:
        middle = <const uint8_t *> memchr(at, 1, end - at)
        if middle == NULL or middle == at:
            return 0
        stop = <const uint8_t *> memchr(middle + 1, 2, end - middle - 1)
        if stop == NULL or memchr(at, 2, middle - at) != NULL or memchr(middle + 1, 1, stop - middle - 1) != NULL:
            return 0
        name_size = middle - at
        fact = NULL
        if is_text(at, name_size, b"UNIQ_KEY", 8):
            fact = &one.uniq
        elif is_text(at, name_size, b"KEYS", 4):
            fact = &one.keys
        elif is_text(at, name_size, b"TAGS", 4):
            fact = &one.tags
        elif is_text(at, name_size, b"__SHARDINGKEY", 13):
            one.kind = FIFO_KIND
        elif is_text(at, name_size, b"DELAY", 5):
            if one.level or not decimal(middle + 1, stop - middle - 1, 1, most_levels, &level):
                return 0
            one.level = <int32_t> level
        elif is_text(at, name_size, b"TRAN_MSG", 8) and is_true(middle + 1, stop - middle - 1):
            one.is_half = 1
        elif is_left_over(at, name_size) or is_half and is_of_half(at, name_size):
            return 0
        if fact != NULL:
            if fact.size or stop == middle + 1:
                return 0
            fact.at = middle + 1 - arena
            fact.size = stop - middle - 1
        at = stop + 1
    if one.level:
        if not may_be_delayed(arena + begin, size):
            return 0
        if one.kind == NORMAL_KIND:
            one.kind = DELAY_KIND
    return one.is_half == is_half


cdef int has_only_ids(const uint8_t *at, int64_t size) noexcept nogil:
    """Whether the names of a canonical property string are among those that each message of a batch has of its own."""
    cdef const uint8_t *end = at + size
    cdef const uint8_t *middle
    while at < end:
        middle = <const uint8_t *> memchr(at, 1, end - at)
        if not (is_text(at, middle - at, b"UNIQ_KEY", 8) or is_text(at, middle - at, b"WAIT", 4)):
            return 0
        at = <const uint8_t *> memchr(middle, 2, end - middle) + 1
    return 1


cdef int is_plain_ascii(const uint8_t *at, int64_t size) noexcept nogil:
    """Whether JSON shows a text as it is."""
    cdef int64_t i
    for i in range(size):
        if at[i] < 32 or at[i] >= 127 or at[i] == c'"' or at[i] == c'\\':
            return 0
    return 1


cdef int is_ascii(const uint8_t *at, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(size):
        if at[i] >= 128:
            return 0
    return 1


cdef int add_key(
    list hashes, list places, object place, uint32_t state, const uint8_t *at, int64_t size
) except -1:
    """Add the hash of an index key, which is UTF-8."""
    text_hash(&state, at, size)
    hashes.append(index_hash_of(state))
    places.append(place)
    return 0


cdef void *with_room(void *at, int64_t count, int64_t *room, size_t size) noexcept nogil:
    """Return space for `count` items of `size` bytes; `room` stays as it is if there is none."""
    cdef void *found
    if count <= room[0]:
        return at
    found = realloc(at, <size_t> (2 * count) * size)
    if found == NULL:
        return at
    room[0] = 2 * count
    return found


cdef class SentRecords:
    """Records of the sends of one read, in their order, which have no place until `place`; and ends of transactions."""

    cdef bytes data
    cdef int64_t start           # of the frames in the data
    cdef SendFrames maker
    cdef list names, found_queues, found_topics
    cdef int32_t named[64]       # numbers of the topics that the requests name
    cdef int named_count
    cdef uint8_t *arena
    cdef int64_t used, room
    cdef SentOne *ones
    cdef int64_t ones_room
    cdef SentRequest *requests
    cdef int64_t requests_room
    cdef Ending *endings
    cdef int64_t endings_room
    cdef uint8_t *texts
    cdef int64_t texts_used, texts_room
    cdef Slot slots[64]
    cdef int slot_count
    cdef readonly int64_t code
    """The code of the sends, 0 without one."""
    cdef readonly int64_t count
    """Messages."""
    cdef readonly int64_t request_count
    cdef readonly int64_t body_size
    """Bytes of their bodies."""
    cdef readonly int64_t end
    """Where the first frame begins that is left over."""
    cdef readonly int64_t half_count
    """Half messages."""
    cdef readonly int64_t one_way_count
    """Requests that want no answer."""
    cdef readonly int64_t ending_count
    """Ends of transactions."""

    def __dealloc__(self):
        free(self.arena)
        free(self.ones)
        free(self.requests)
        free(self.endings)
        free(self.texts)

    cdef int has_room(self, int64_t size, int64_t ones, int64_t text) noexcept nogil:
        """Make space for a request: the bytes and the number of its records, the bytes of its UNIQ_KEY."""
        self.arena = <uint8_t *> with_room(self.arena, self.used + size, &self.room, 1)
        self.ones = <SentOne *> with_room(self.ones, self.count + ones, &self.ones_room, sizeof(SentOne))
        self.requests = <SentRequest *> with_room(
            self.requests, self.request_count + 1, &self.requests_room, sizeof(SentRequest)
        )
        self.texts = <uint8_t *> with_room(self.texts, self.texts_used + text, &self.texts_room, 1)
        return self.room >= self.used + size and self.ones_room >= self.count + ones and (
            self.requests_room > self.request_count and self.texts_room >= self.texts_used + text
        )

    cdef int slot_of(self, int topic, int queue) noexcept nogil:
        """The number of a queue; -1 if there are too many."""
        cdef int one
        for one in range(self.slot_count):
            if self.slots[one].queue == queue and self.slots[one].topic == topic:
                return one
        if self.slot_count == MOST_SLOTS:
            return -1
        one = self.slot_count
        self.slot_count += 1
        self.slots[one].topic = topic
        self.slots[one].queue = queue
        self.slots[one].count = 0
        self.slots[one].hash = self.maker.topics[topic].hash
        return one

    cdef int name(self, int topic) noexcept nogil:
        """Note a topic that a request names; 0 if there are too many."""
        cdef int one
        for one in range(self.named_count):
            if self.named[one] == topic:
                return 1
        if self.named_count == MOST_SLOTS:
            return 0
        self.named[self.named_count] = topic
        self.named_count += 1
        return 1

    @property
    def named_topics(self):
        """The topics that the requests name: half messages are stored under another."""
        return [self.names[self.named[one]] for one in range(self.named_count)]

    @property
    def queues(self):
        """The queues in the order of their first messages: topic, queue, messages."""
        cdef Slot *slot
        if self.found_queues is None:
            self.found_queues = []
            for i in range(self.slot_count):
                slot = &self.slots[i]
                self.found_queues.append((self.names[slot.topic], slot.queue, slot.count))
        return self.found_queues

    cdef int counted_topic(self, const SentRequest *request) noexcept nogil:
        """The topic that the messages of a request count for."""
        return HALF_TOPIC if self.ones[request.first].is_half else request.topic

    @property
    def topics(self):
        """The topics that messages count for, in their order: topic, messages, bytes of records, requests.

        It is the one that a message names, but that of half messages for those.
        """
        cdef int numbers[65]             # at most those that requests name, and that of half messages
        cdef int64_t found[65][3]
        cdef int count = 0, one, topic
        cdef int64_t i
        cdef SentRequest *request
        if self.found_topics is None:
            for i in range(self.request_count):
                request = &self.requests[i]
                topic = self.counted_topic(request)
                one = 0
                while one < count and numbers[one] != topic:
                    one += 1
                if one == count:
                    numbers[one] = topic
                    found[one][0] = found[one][1] = found[one][2] = 0
                    count += 1
                found[one][0] += request.count
                found[one][1] += request.size
                found[one][2] += 1
            self.found_topics = [
                (self.names[numbers[one]], found[one][0], found[one][1], found[one][2]) for one in range(count)
            ]
        return self.found_topics

    @property
    def last(self):
        """The physical offset of the last record."""
        return self.ones[self.count - 1].phy_offset

    cdef SentRequest *request(self, int64_t number) except NULL:
        if not 0 <= number < self.request_count:
            raise IndexError(number)
        return &self.requests[number]

    def frames(self):
        """Return the frames, one after the other."""
        return self.data[self.start:self.end]

    def sends(self):
        """Return the frames of the sends alone."""
        cdef int64_t i
        if not self.ending_count:
            return self.frames()
        return b"".join([
            self.data[self.requests[i].frame:self.requests[i].frame_end] for i in range(self.request_count)
        ])

    def signed(self):
        """Return account and signature, None without them, the topic that it names, and what is signed of each send."""
        cdef int64_t i
        cdef SentRequest *request
        cdef const uint8_t *frame
        cdef const uint8_t *body
        cdef SendHeader header
        cdef list found = []
        for i in range(self.request_count):
            request = &self.requests[i]
            frame = <const uint8_t *> PyBytes_AsString(self.data) + request.frame
            body = frame + 8 + (get32(frame + 4) & 0xFFFFFF)
            parse_header(frame + 8, body, request.is_binary, &header)      # as it was when the request was taken
            found.append((
                field_text(&header, ACCESS_FIELD), field_text(&header, SIGNATURE_FIELD), self.names[request.topic],
                signed_content(&header, body, request.frame_end - request.frame - (body - frame)),
            ))
        return found

    @property
    def ending_offsets(self):
        """The half offsets of the ends of transactions."""
        cdef int64_t i
        return [self.endings[i].half_offset for i in range(self.ending_count)]

    def end_halves(self, list halves not None):
        """End the transactions of half messages, which are the records at `ending_offsets`, None for one without.

        Returns the records of the commits, None without one, half offsets that are committed and that are rolled back,
        times (ms) of birth by topic and whether it is a commit, the frames of commits and of rollbacks whose clients
        want an answer, and the frames that are left over.
        """
        if len(halves) != self.ending_count:
            raise ValueError("a half message, or None, is needed for each end")
        return end_halves(self, halves)

    @property
    def size(self):
        """The bytes of the records."""
        return self.used

    def size_of(self, int64_t number):
        """Return the size of the records of a request in bytes."""
        return self.request(number).size

    def begin(self, list firsts not None, int64_t now_ms):
        """Give the records the next offsets of their queues, and the time at which they are stored."""
        cdef int64_t i
        cdef SentOne *one
        if len(firsts) != self.slot_count:
            raise ValueError("one offset for each queue is needed")
        for i in range(self.slot_count):
            self.slots[i].first = firsts[i]
            self.slots[i].count = 0
        for i in range(self.count):
            one = &self.ones[i]
            one.queue_offset = self.slots[one.slot].first + self.slots[one.slot].count
            self.slots[one.slot].count += 1
            put64(self.arena + one.record + 20, <uint64_t> one.queue_offset)
            put64(self.arena + one.record + 48 + self.maker.born_size_of(self.arena + one.record), <uint64_t> now_ms)
            if one.level:
                one.tags_code = <int64_t> (<uint64_t> now_ms + <uint64_t> self.maker.levels_ms[one.level - 1])

    def place(self, int64_t number, int64_t phy_offset, int64_t room_to):
        """Place the records of requests from `number` on from `phy_offset` on, as far as they end before `room_to`.

        Returns the number of the first request that is not placed, and the bytes of the others.
        """
        cdef int64_t row, begin = self.ones[self.request(number).first].record, at = phy_offset
        cdef SentRequest *request
        cdef SentOne *one
        with nogil:
            while number < self.request_count and self.requests[number].size <= room_to - at:
                request = &self.requests[number]
                for row in range(request.first, request.first + request.count):
                    one = &self.ones[row]
                    one.phy_offset = at
                    put64(self.arena + one.record + 28, <uint64_t> at)
                    if self.maker.property_crc:
                        put_record_crc(self.arena + one.record, one.size)
                    at += one.size
                number += 1
        return number, PyBytes_FromStringAndSize(<char *> self.arena + begin, at - phy_offset)

    def rows(self):
        """Return the units of each queue, the hashes of index keys, and the offsets of their records."""
        cdef int64_t i, at, start
        cdef uint32_t state
        cdef SentOne *one
        cdef const uint8_t *keys
        cdef uint8_t *units[64]
        cdef list found = [], hashes = [], places = []
        for i in range(self.slot_count):
            found.append(PyBytes_FromStringAndSize(NULL, self.slots[i].count * UNIT_SIZE))
            units[i] = <uint8_t *> PyBytes_AsString(found[i])
        for i in range(self.count):
            one = &self.ones[i]
            put_unit(units[one.slot], one.phy_offset, one.size, one.tags_code)
            units[one.slot] += UNIT_SIZE
            state = self.slots[one.slot].hash
            place = one.phy_offset
            add_key(hashes, places, place, state, self.arena + one.uniq.at, one.uniq.size)
            keys = self.arena + one.keys.at
            start = 0
            for at in range(one.keys.size + 1 if one.keys.size else 0):
                if at == one.keys.size or keys[at] == 0x20:
                    if at > start:
                        add_key(hashes, places, place, state, keys + start, at - start)
                    start = at + 1
            if one.tags.size and self.maker.tag_entries:
                state = java_hash(state, b"T#", 2)
                add_key(hashes, places, place, state, self.arena + one.tags.at, one.tags.size)
        return found, hashes, places

    def stored(self, int64_t number):
        """Return topic, queue, queue offset, physical offset, message ids and UNIQ_KEY, None without, of a request."""
        cdef SentRequest *request = self.request(number)
        cdef SentOne *one = &self.ones[request.first]
        cdef int64_t row
        cdef str prefix = self.maker.id_prefix.decode()
        ids = ",".join(
            [f"{prefix}{self.ones[row].phy_offset:016X}" for row in range(request.first, request.first + request.count)]
        )
        uniq = PyBytes_FromStringAndSize(<char *> self.texts + request.uniq.at, request.uniq.size).decode()
        return self.names[request.topic], request.queue, one.queue_offset, one.phy_offset, ids, uniq or None

    def halves(self):
        """Return the records of half messages by their queue offset, and the number of them by the topic they name."""
        cdef int64_t i
        cdef SentRequest *request
        cdef SentOne *one
        cdef dict records = {}, topics = {}
        for i in range(self.request_count):
            request = &self.requests[i]
            one = &self.ones[request.first]
            if one.is_half:
                records[one.queue_offset] = PyBytes_FromStringAndSize(<char *> self.arena + one.record, one.size)
                topic = self.names[request.topic]
                topics[topic] = topics.get(topic, 0) + 1
        return records, topics

    def kinds(self, bounds not None):
        """Return topics, types (0 normal, 1 ordered, 2 delayed), messages, bytes of bodies and properties, and sizes.

        The sizes are counts of requests whose messages have sizes up to each of the ascending `bounds`, and of larger.
        """
        cdef int64_t i, size
        cdef Py_ssize_t place, last = len(bounds)
        cdef SentRequest *request
        cdef dict found = {}
        cdef list row
        for i in range(self.request_count):
            request = &self.requests[i]
            size = request.counted // request.count
            kind = (self.counted_topic(request), request.kind)
            row = found.get(kind)
            if row is None:
                row = found[kind] = [0] * (last + 3)
            place = 0
            while place < last and size > bounds[place]:
                place += 1
            row[place] += 1
            row[last + 1] += request.count
            row[last + 2] += request.counted
        return [
            (self.names[topic], one, row[last + 1], row[last + 2], row[:last + 1])
            for (topic, one), row in found.items()
        ]

    def answers(self):
        """Return the frames of the usual answers, one after the other, each in the header type of its request.

        Requests that want no answer have none.
        """
        cdef SendFrames maker = self.maker
        cdef int64_t i, size = self.count * (len(maker.id_prefix) + 16 + 1) + self.texts_used
        cdef uint8_t *out
        cdef uint8_t *at
        cdef uint8_t *frame
        size += self.request_count * (maker.answer_size + 3 * 20 + 8 + 8 + 5 * 4)
        out = at = <uint8_t *> realloc(NULL, <size_t> size)
        if out == NULL:
            raise MemoryError
        for i in range(self.request_count):
            if self.requests[i].is_one_way:
                continue
            frame = at
            if self.requests[i].is_binary:
                at = self.put_binary_answer(at + 8, &self.requests[i])
            else:
                at = self.put_json_answer(at + 8, &self.requests[i])
            put32(frame, <uint32_t> (at - frame - 4))
            put32(frame + 4, <uint32_t> (self.requests[i].is_binary << 24 | at - frame - 8))
        try:
            return PyBytes_FromStringAndSize(<char *> out, at - out)
        finally:
            free(out)

    cdef uint8_t *put_ids(self, uint8_t *at, const SentRequest *request):
        """Write the offset ids of a request's messages, with commas between them."""
        cdef int64_t row
        for row in range(request.first, request.first + request.count):
            at = put_part(at, self.maker.id_prefix)
            put_digits(at, <uint64_t> self.ones[row].phy_offset, 16)
            at[16] = c','
            at += 17
        return at - 1

    cdef uint8_t *put_json_answer(self, uint8_t *at, const SentRequest *request):
        cdef tuple parts = self.maker.json_answer
        at = put_part(at, parts[0])
        at[0] = c'"'
        at = self.put_ids(at + 1, request)
        at[0] = c'"'
        at = put_quoted(put_part(at + 1, parts[1]), request.queue)
        at = put_quoted(put_part(at, parts[2]), self.ones[request.first].queue_offset)
        if request.uniq.size:
            at = put_part(at, parts[3])
            at[0] = c'"'
            at = append_bytes(at + 1, self.texts + request.uniq.at, request.uniq.size)
            at[0] = c'"'
            at += 1
        at = put_decimal(put_part(at, parts[4]), request.opaque)
        return put_part(at, parts[5])

    cdef uint8_t *put_binary_answer(self, uint8_t *at, const SentRequest *request):
        cdef tuple parts = self.maker.binary_answer
        cdef uint8_t *fields
        cdef uint8_t *value
        at = put_part(at, parts[4])
        put32(at, <uint32_t> request.opaque)
        fields = put_part(at + 4, parts[5])
        value = put_part(fields + 4, parts[0])
        at = end_value(value, self.put_ids(value + 4, request))
        value = put_part(at, parts[1])
        at = end_value(value, put_decimal(value + 4, request.queue))
        value = put_part(at, parts[2])
        at = end_value(value, put_decimal(value + 4, self.ones[request.first].queue_offset))
        if request.uniq.size:
            value = put_part(at, parts[3])
            at = end_value(value, append_bytes(value + 4, self.texts + request.uniq.at, request.uniq.size))
        return end_value(fields, at)


cdef inline uint8_t *end_value(uint8_t *value, uint8_t *end) noexcept nogil:
    """Write the size of what follows it up to `end`, and return that."""
    put32(value, <uint32_t> (end - value - 4))
    return end


cdef field_text(const SendHeader *header, int field):
    """The value of a field without escapes, None without one."""
    if not header.fields & (1u << field):
        return None
    return PyBytes_FromStringAndSize(<const char *> header.texts[field].at, header.texts[field].size).decode()


cdef bytes signed_content(SendHeader *header, const uint8_t *body, int64_t body_size):
    """What a client signs of a request that is usual: the values in the order of their names, and the body."""
    cdef const int *order = &LONG_SIGNED[0] if header.code == SEND else &LETTERS_SIGNED[0]
    cdef int64_t room = body_size
    cdef int i
    cdef bytes content
    cdef uint8_t *at
    for i in range(SIGNED_COUNT):
        if header.fields & (1u << order[i]):
            room += header.texts[order[i]].size
    content = PyBytes_FromStringAndSize(NULL, room)
    at = <uint8_t *> PyBytes_AsString(content)
    for i in range(SIGNED_COUNT):
        if header.fields & (1u << order[i]):
            at += unescaped(&header.texts[order[i]], at)
    at = append_bytes(at, body, body_size)
    return content[:at - <uint8_t *> PyBytes_AsString(content)]


cdef uint8_t *put_part(uint8_t *at, bytes part):
    memcpy(at, PyBytes_AsString(part), len(part))
    return at + len(part)


cdef uint8_t *put_decimal(uint8_t *at, int64_t value) noexcept nogil:
    cdef uint8_t digits[20]
    cdef int count = 0
    cdef uint64_t rest = <uint64_t> value
    if value < 0:
        at[0] = c'-'
        at += 1
        rest = 0 - rest
    while True:
        digits[count] = <uint8_t> (c'0' + rest % 10)
        rest //= 10
        count += 1
        if not rest:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at


cdef uint8_t *put_quoted(uint8_t *at, int64_t value) noexcept nogil:
    at[0] = c'"'
    at = put_decimal(at + 1, value)
    at[0] = c'"'
    return at + 1


cdef class SendFrames:
    """Takes usual sends to the queues that it was taught.

    Those with a delay level wait in `delay_topic`; `levels_ms` are the delays. `added` ends the properties of all messages;
    `answers` are the parts of the usual answer's header around message id, queue, queue offset, transaction id and opaque,
    in JSON and in ROCKETMQ's own form.
    """

    cdef TaughtTopic *topics
    cdef int16_t places[2048]
    cdef int topic_count
    cdef list names
    cdef bytes added, store_host, id_prefix
    cdef str half_topic, delay_topic
    cdef int64_t levels_ms[64]
    cdef int64_t level_count
    cdef tuple json_answer, binary_answer
    cdef const uint8_t *added_bytes
    cdef const uint8_t *store_bytes
    cdef int64_t added_size, store_size
    cdef int64_t answer_size, max_frame, max_body, max_record, max_properties, max_run, max_run_bytes
    cdef int64_t max_endings, max_commit_bytes
    cdef Names half_names
    cdef int property_crc, tag_entries

    def __cinit__(self):
        self.topics = <TaughtTopic *> realloc(NULL, MOST_TAUGHT * sizeof(TaughtTopic))
        if self.topics == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.topics)

    def __init__(
        self, bytes added not None, bytes store_host not None, tuple answers not None, *, int64_t max_frame,
        int64_t max_body, int64_t max_record, int64_t max_properties, int64_t max_run, int64_t max_run_bytes,
        int64_t max_endings, int64_t max_commit_bytes, bint property_crc, bint tag_entries, str half_topic not None,
        str delay_topic not None, tuple levels_ms not None
    ):
        if len(store_host) not in (8, 20) or [len(one) for one in answers] != [6, 6]:
            raise ValueError("a host has 8 or 20 bytes, each of two answers has 6 parts")
        for one in (half_topic, delay_topic):
            if not one.isascii() or not 0 < len(one) < WAITING_ROOM - 64:
                raise ValueError("the topics of half and of delayed messages have other names")
        self.half_topic, self.delay_topic = half_topic, delay_topic
        self.level_count = min(len(levels_ms), MOST_LEVELS)
        for i in range(self.level_count):
            self.levels_ms[i] = levels_ms[i]
        self.added, self.store_host = added, store_host
        self.json_answer, self.binary_answer = answers
        self.id_prefix = store_host.hex().upper().encode()
        self.answer_size = max(sum(map(len, one)) for one in answers)
        self.max_frame, self.max_body, self.max_record = max_frame, max_body, max_record
        self.max_properties, self.max_run, self.max_run_bytes = max_properties, max_run, max_run_bytes
        self.max_endings, self.max_commit_bytes = max_endings, max_commit_bytes
        take_names(HALF_NAMES, &self.half_names)
        self.added_bytes, self.added_size = <const uint8_t *> PyBytes_AsString(added), len(added)
        self.store_bytes, self.store_size = <const uint8_t *> PyBytes_AsString(store_host), len(store_host)
        self.property_crc, self.tag_entries = property_crc, tag_entries
        self.names = []
        self.forget()

    def forget(self):
        """Forget all topics but those of half and of delayed messages, which no request names."""
        cdef int i
        self.names = []                  # a new list: records that wait have the one before
        self.topic_count = 0
        for i in range(TOPIC_PLACES):
            self.places[i] = -1
        self.add_topic(self.half_topic)
        self.add_topic(self.delay_topic)

    cdef int add_topic(self, str topic) except -1:
        """Add a topic with a name of ASCII, and return its number."""
        cdef bytes name = topic.encode()
        cdef TaughtTopic *added = &self.topics[self.topic_count]
        memset(added, 0, sizeof(TaughtTopic))
        memcpy(added.name, PyBytes_AsString(name), len(name))
        added.size = <int32_t> len(name)
        added.hash = java_hash(java_hash(0, added.name, len(name)), b"#", 1)
        self.names = [*self.names, topic]
        self.topic_count += 1
        return self.topic_count - 1

    def teach(self, str topic not None, int queue_id):
        """Take sends to a queue of a topic from now on; return whether it is taken."""
        cdef bytes name = topic.encode()
        cdef int number, place
        if not topic.isascii() or not 0 < len(name) <= MOST_TOPIC or not 0 <= queue_id < MOST_QUEUES:
            return False
        number = self.find(<const uint8_t *> PyBytes_AsString(name), len(name), &place)
        if number < 0:
            if self.topic_count == MOST_TAUGHT:
                return False
            number = self.add_topic(topic)
            self.places[place] = <int16_t> number
        self.topics[number].queues[queue_id >> 6] |= <uint64_t> 1 << (queue_id & 63)
        return True

    cdef int find(self, const uint8_t *name, int64_t size, int *place) noexcept nogil:
        """The number of a topic; -1 and its place in the table for one that is not known."""
        cdef int at = <int> (java_hash(0, name, <size_t> size) & (TOPIC_PLACES - 1))
        cdef int number
        while True:
            number = self.places[at]
            if number < 0 or (
                self.topics[number].size == size and memcmp(self.topics[number].name, name, <size_t> size) == 0
            ):
                place[0] = at
                return number
            at = (at + 1) & (TOPIC_PLACES - 1)

    cdef int64_t born_size_of(self, const uint8_t *record) noexcept nogil:
        return 20 if get32(record + 36) & BORN_V6 else 8

    def of(self, bytes born_host not None):
        """Return what takes the sends of a client, whose host has 8 or 20 bytes."""
        cdef SendsOfHost made = SendsOfHost.__new__(SendsOfHost)
        if len(born_host) not in (8, 20):
            raise ValueError("a host has 8 or 20 bytes")
        made.maker, made.born_host = self, born_host
        return made

    cdef int64_t take_one(
        self, SentRecords records, const uint8_t *data, int64_t end, const uint8_t *born, int64_t born_size
    ) noexcept nogil:
        cdef int64_t position = records.end, size, header_size, body_size, value
        cdef int64_t queue, sys_flag, born_ms, flag, times = 0, row
        cdef uint32_t kind
        cdef int slot, place, is_batch
        cdef SendHeader header
        cdef SentFacts facts
        cdef SentRequest *request
        cdef const uint8_t *body
        if end - position < 8:
            return 0
        size = <int32_t> get32(data + position)
        kind = get32(data + position + 4)
        header_size = kind & 0xFFFFFF
        if size < 4 or size > self.max_frame - 4 or kind >> 24 > 1 or header_size > size - 4:
            return 0
        if size > end - position - 4:
            return 0
        body = data + position + 8 + header_size
        body_size = size - 4 - header_size
        if not may_be_usual(data + position, end - position):
            return 0
        if not parse_header(data + position + 8, body, kind >> 24 == 1, &header):
            return 0
        if header.code == END_TRANSACTION:
            if body_size or not take_ending(records, &header, position, body - data):
                return 0
            records.end = body - data
            return 1
        if records.count and header.code != records.code:
            return 0
        if header.flag not in (0, ONE_WAY_FLAG) or body_size > self.max_body:
            return 0
        if header.fields & NEEDED_FIELDS != NEEDED_FIELDS or not header.fields & (1u << PROPERTIES_FIELD):
            return 0
        # -- the fields
        if not (
            is_int32(&header.texts[3], &value)
            and is_int32(&header.texts[QUEUE_FIELD], &queue)
            and is_int32(&header.texts[SYS_FLAG_FIELD], &sys_flag)
            and is_int32(&header.texts[FLAG_FIELD], &flag)
        ):
            return 0
        value = 999999999999999999
        if not decimal(header.texts[BORN_FIELD].at, header.texts[BORN_FIELD].size, -value, value, &born_ms):
            return 0
        if header.fields & (1u << TIMES_FIELD) and not is_int32(&header.texts[TIMES_FIELD], &times):
            return 0
        if header.fields & (1u << 11) and not is_int32(&header.texts[11], &value):
            return 0
        if header.fields & (1u << UNIT_FIELD) and not is_bool(&header.texts[UNIT_FIELD]):
            return 0
        if header.fields & (1u << BATCH_FIELD) and not is_bool(&header.texts[BATCH_FIELD]):
            return 0
        is_batch = header.code == SEND_BATCH
        if not is_batch and header.fields & (1u << BATCH_FIELD) and header.texts[BATCH_FIELD].size == 4:
            return 0
        if sys_flag & (LEFT_BATCH_FLAGS if is_batch else LEFT_FLAGS) or queue < 0 or queue >= MOST_QUEUES:
            return 0
        if is_batch and (born_size != 8 or self.store_size != 8):
            return 0
        facts.named_topic = self.find(header.texts[TOPIC_FIELD].at, header.texts[TOPIC_FIELD].size, &place)
        if facts.named_topic < 0 or not self.topics[facts.named_topic].queues[queue >> 6] >> (queue & 63) & 1:
            return 0
        facts.topic, facts.queue, facts.named_queue = facts.named_topic, queue, queue
        facts.is_half = sys_flag & HALF_FLAG != 0
        facts.may_delay = not is_batch and not facts.is_half
        facts.level, facts.waiting_size = 0, 0
        if facts.is_half:
            facts.topic, facts.queue = HALF_TOPIC, 0
            sys_flag &= ~<int64_t> TRANSACTION_FLAGS
        facts.sys_flag = sys_flag & ~<int64_t> (BORN_V6 | STORE_V6)
        facts.sys_flag |= (BORN_V6 if born_size == 20 else 0) | (STORE_V6 if self.store_size == 20 else 0)
        facts.born_ms, facts.times = born_ms, times
        facts.born, facts.born_size = born, born_size
        if is_batch:
            size = self.take_batch(records, &facts, &header.texts[PROPERTIES_FIELD], body, body_size)
        else:
            size = self.take_single(records, &facts, flag, &header.texts[PROPERTIES_FIELD], body, body_size)
        if not size:
            return 0
        slot = records.slot_of(facts.topic, <int> facts.queue) if records.name(facts.named_topic) else -1
        if slot < 0:
            return 0
        request = &records.requests[records.request_count]
        for row in range(records.count, records.count + request.count):
            records.ones[row].slot = slot
        request.frame, request.frame_end = position, body + body_size - data
        request.opaque, request.is_binary = <int32_t> header.opaque, kind >> 24 == 1
        request.is_one_way = header.flag == ONE_WAY_FLAG
        request.topic, request.queue = facts.named_topic, <int32_t> queue
        request.first, request.size = records.count, size
        records.half_count += facts.is_half
        records.one_way_count += request.is_one_way
        records.code = header.code
        records.slots[slot].count += request.count
        records.used += size
        records.texts_used += request.uniq.size
        records.body_size += body_size
        records.end = body + body_size - data
        records.count += request.count
        records.request_count += 1
        return 1

    cdef int64_t take_single(
        self, SentRecords records, SentFacts *facts, int64_t flag, HeaderText *text, const uint8_t *body, int64_t body_size
    ) noexcept nogil:
        """Write the record of a message after the others; return its size, 0 if it is left over."""
        cdef int64_t size
        cdef SentRequest *request
        cdef SentOne *one
        size = self.most_of(facts, body_size) + text.size
        if facts.is_half or facts.may_delay:
            size += WAITING_ROOM + self.topics[facts.named_topic].size + text.size
        if not records.has_room(size, 1, text.size):
            return 0
        request = &records.requests[records.request_count]
        one = &records.ones[records.count]
        one.record = records.used
        size = self.put_record(records.arena, one, facts, flag, text, body, body_size, 0)
        if not size or not is_plain_ascii(records.arena + one.uniq.at, one.uniq.size):
            return 0
        request.count = 1
        request.kind = one.kind
        request.counted = size - self.fixed_size(facts) - (CRC_PROPERTY_SIZE if self.property_crc else 0)
        if facts.level:
            request.counted -= facts.waiting_size
        request.uniq.at, request.uniq.size = records.texts_used, one.uniq.size
        memcpy(records.texts + records.texts_used, records.arena + one.uniq.at, <size_t> one.uniq.size)
        return size

    cdef int64_t take_batch(
        self, SentRecords records, SentFacts *facts, HeaderText *text, const uint8_t *body, int64_t body_size
    ) noexcept nogil:
        """Write the records of a batch after the others; return their size, 0 if the batch is left over."""
        cdef int64_t place = 0, count = 0, size, own, own_size, begin = records.used
        cdef SentRequest *request
        cdef SentOne *one
        cdef SentOne common
        cdef HeaderText properties
        while place < body_size:
            if body_size - place < ENTRY_HEAD + 2:
                return 0
            size, own = <int32_t> get32(body + place), <int32_t> get32(body + place + 16)
            if own < 0 or own > body_size - place - ENTRY_HEAD - 2:
                return 0
            own_size = get16(body + place + ENTRY_HEAD + own)
            if size != ENTRY_HEAD + 2 + own + own_size or size > body_size - place:
                return 0
            place += size
            count += 1
        if count == 0:
            return 0
        if not records.has_room(count * self.most_of(facts, 0) + body_size + text.size + 1, count, text.size):
            return 0
        # -- the batch's own properties, which its messages do not get
        size = unescaped(text, records.arena + begin)
        if size <= 0:
            return 0
        if records.arena[begin + size - 1] != 2:
            records.arena[begin + size] = 2
            size += 1
        request = &records.requests[records.request_count]
        if not take_properties(records.arena, begin, size, &common, 0, 0):
            return 0
        request.kind = common.kind
        if not has_only_ids(records.arena + begin, size):
            return 0
        if not is_plain_ascii(records.arena + common.uniq.at, common.uniq.size):
            return 0
        request.count = count
        request.counted = body_size + size + self.added_size
        request.uniq.at, request.uniq.size = records.texts_used, common.uniq.size
        memcpy(records.texts + records.texts_used, records.arena + common.uniq.at, <size_t> common.uniq.size)
        # -- its messages
        place, count = 0, records.count
        properties.escaped = 0
        while place < body_size:
            own = <int32_t> get32(body + place + 16)
            properties.at = body + place + ENTRY_HEAD + own + 2
            properties.size = get16(properties.at - 2)
            one = &records.ones[count]
            one.record = begin
            size = self.put_record(
                records.arena, one, facts, <int32_t> get32(body + place + 12), &properties, body + place + ENTRY_HEAD,
                own, NEW_ID,
            )
            if not size or not is_utf8(properties.at, properties.size):
                return 0
            begin += size
            place += ENTRY_HEAD + 2 + own + properties.size
            count += 1
        size = begin - records.used
        return size if size <= self.max_record else 0

    cdef int64_t fixed_size(self, SentFacts *facts) noexcept nogil:
        """The bytes of a record without body and properties."""
        return HEAD_SIZE - 2 * 8 + facts.born_size + self.store_size + 1 + self.topics[facts.topic].size + 2

    cdef int64_t most_of(self, SentFacts *facts, int64_t body_size) noexcept nogil:
        """The most bytes that a record takes without its sender's properties."""
        return self.fixed_size(facts) + body_size + 1 + self.added_size + CRC_PROPERTY_SIZE

    cdef int64_t put_of_waiting(
        self, uint8_t *to, SentFacts *facts, const uint8_t *uniq, int64_t uniq_size
    ) noexcept nogil:
        """Write what is added to the properties of a half or delayed message; return its size."""
        cdef TaughtTopic *named = &self.topics[facts.named_topic]
        cdef uint8_t *at = append_bytes(to, <const uint8_t *> b"REAL_TOPIC\x01", 11)
        at = append_bytes(at, named.name, named.size)
        at = put_decimal(append_bytes(at, <const uint8_t *> b"\x02REAL_QID\x01", 10), facts.named_queue)
        if facts.is_half:
            at = append_bytes(append_bytes(at, <const uint8_t *> b"\x02__transactionId__\x01", 19), uniq, uniq_size)
        at[0] = 2
        return at + 1 - to

    cdef int64_t put_record(
        self, uint8_t *arena, SentOne *one, SentFacts *facts, int64_t flag, HeaderText *text, const uint8_t *body,
        int64_t body_size, int64_t reserve
    ) noexcept nogil:
        """Write a record at its place in the arena and find its facts; return its size, 0 if it is left over.

        Its properties have to leave `reserve` bytes.
        """
        cdef TaughtTopic *known = &self.topics[facts.topic]
        cdef int64_t begin = one.record + self.fixed_size(facts) + body_size, property_size, size
        cdef uint8_t *record = arena + one.record
        cdef uint8_t *at = arena + begin
        property_size = unescaped(text, at)
        if property_size <= 0:
            return 0
        if at[property_size - 1] != 2:
            at[property_size] = 2
            property_size += 1
        if not take_properties(
            arena, begin, property_size, one, facts.is_half, self.level_count if facts.may_delay else 0
        ):
            return 0
        if one.level != facts.level:       # it is stored under another topic, whose name has another size
            facts.level = one.level
            facts.topic, facts.queue = DELAY_TOPIC, one.level - 1
            return self.put_record(arena, one, facts, flag, text, body, body_size, reserve)
        if not one.uniq.size or not is_ascii(arena + one.tags.at, one.tags.size):
            return 0
        memcpy(at + property_size, self.added_bytes, <size_t> self.added_size)
        property_size += self.added_size
        if facts.is_half or facts.level:
            facts.waiting_size = self.put_of_waiting(at + property_size, facts, arena + one.uniq.at, one.uniq.size)
            property_size += facts.waiting_size
            if not self.property_crc and ends_like_crc(at + property_size):
                return 0
        if property_size > self.max_properties - reserve:
            return 0
        if self.property_crc:
            property_size += CRC_PROPERTY_SIZE
        size = begin - one.record + property_size
        if size > self.max_record:
            return 0
        put32(record, <uint32_t> size)
        put32(record + 4, MAGIC_V1)
        put32(record + 8, crc32_of(body, <size_t> body_size) & 0x7FFFFFFF)
        put32(record + 12, <uint32_t> facts.queue)
        put32(record + 16, <uint32_t> flag)
        put32(record + 36, <uint32_t> facts.sys_flag)
        put64(record + 40, <uint64_t> facts.born_ms)
        memcpy(record + 48, facts.born, <size_t> facts.born_size)
        at = record + 56 + facts.born_size
        memcpy(at, self.store_bytes, <size_t> self.store_size)
        at += self.store_size
        put32(at, <uint32_t> facts.times)
        put64(at + 4, 0)
        put32(at + 12, <uint32_t> body_size)
        memcpy(at + 16, body, <size_t> body_size)
        at += 16 + body_size
        at[0] = <uint8_t> known.size
        memcpy(at + 1, known.name, <size_t> known.size)
        put16(at + 1 + known.size, <uint32_t> property_size)
        one.tags_code = <int32_t> java_hash(0, arena + one.tags.at, <size_t> one.tags.size)
        one.size = size
        one.queue_offset = one.phy_offset = -1
        return size


cdef class SendsOfHost:
    """Takes usual sends of one client: see `SendFrames`."""

    cdef SendFrames maker
    cdef bytes born_host

    def take(self, bytes data not None, int64_t position):
        """Take frames from `position` on up to the first that is not usual; return None without one.

        Their messages are at most `max_run`, and none follows the one whose body reaches `max_run_bytes`; at most
        `max_endings` of them end transactions.
        """
        cdef SendFrames maker = self.maker
        cdef SentRecords records
        cdef int64_t end = len(data), taken = 1
        cdef const uint8_t *begin = <const uint8_t *> PyBytes_AsString(data)
        cdef const uint8_t *born = <const uint8_t *> PyBytes_AsString(self.born_host)
        cdef int64_t born_size = len(self.born_host)
        if not 0 <= position <= end or not may_be_usual(begin + position, end - position):
            return None
        records = SentRecords.__new__(SentRecords)
        records.data, records.maker, records.names, records.end = data, maker, maker.names, position
        records.start = position
        with nogil:
            while taken and records.count < maker.max_run and records.body_size < maker.max_run_bytes:
                taken = maker.take_one(records, begin, end, born, born_size)
        return records if records.count or records.ending_count else None

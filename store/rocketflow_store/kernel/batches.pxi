# The body of a client's batch: see `format/batch_body.py`, which is the definition, and the checks of the producer.

from cpython.bytearray cimport PyByteArray_Resize

cdef enum:
    KEY_DIGITS = 12  # of a new UNIQ_KEY, after what all of its process share


cdef class BatchBody:
    """The entries of a batch; its buffer grows."""

    cdef bytearray data
    cdef int64_t size, room
    cdef list ids, given  # UNIQ_KEYs, and the messages that got a new one

    def __cinit__(self, int64_t room):
        self.data, self.room = PyByteArray_FromStringAndSize(NULL, room), room
        self.ids, self.given = [], []

    cdef uint8_t *more(self, int64_t count) except NULL:
        """Return where the next `count` bytes are to be written."""
        cdef int64_t at = self.size
        if count > self.room - at:
            self.room = 2 * self.room + count
            PyByteArray_Resize(self.data, self.room)
        self.size = at + count
        return <uint8_t *>PyByteArray_AsString(self.data) + at

    cdef int add(self, message, topic, int64_t most, new_key) except -1:
        """Add a message; return 1 if it is left over."""
        cdef bytes body
        cdef const uint8_t *at
        cdef const uint8_t *keys = NULL
        cdef const uint8_t *tags = NULL
        cdef const uint8_t *uniq
        cdef uint8_t *to
        cdef int64_t size, name_size, keys_size = 0, tags_size = 0, uniq_size, properties_size = 0
        given = message.topic
        if given is not topic and (type(given) is not str or given != topic):
            return 1
        if (
            type(message.body) is not bytes or message.queue_id is not None or message.born_timestamp is not None
            or message.born_host is not None or message.sharding_key != "" or not is_zero(message.sys_flag)
            or not is_zero(message.reconsume_times) or not is_zero(message.prepared_transaction_offset)
            or not is_zero(message.delay_level) or not is_zero(message.delay_s) or not is_zero(message.delay_ms)
            or not is_zero(message.deliver_at_ms)
        ):
            return 1
        body, flag, properties = message.body, message.flag, message.properties
        if not 0 < len(body) <= most or type(flag) is not int or not -0x80000000 <= flag < 0x80000000:
            return 1
        if type(properties) is not dict:
            return 1
        pairs = list(properties.items()) if properties else ()  # another thread may change it
        for name, value in pairs:
            at = text_at(name, &name_size)
            if at == NULL or not is_usual_name(at, name_size) or text_at(value, &size) == NULL:
                return 1
            properties_size += name_size + size + 2
        given = message.keys
        if given:
            if type(given) is not list:
                return 1
            given = given[0] if len(given) == 1 else " ".join(given)
            keys = text_at(given, &keys_size)
            if keys == NULL:
                return 1
            properties_size += keys_size + 6 if keys_size else 0
        tags_text = message.tags
        tags = text_at(tags_text, &tags_size)
        if tags == NULL:
            return 1
        properties_size += tags_size + 6 if tags_size else 0
        uniq_key = message.uniq_key
        if type(uniq_key) is str and not uniq_key:
            uniq_key = message.uniq_key = new_key
            self.given.append(message)
        uniq = text_at(uniq_key, &uniq_size)
        if uniq == NULL:
            return 1
        properties_size += uniq_size + 10
        if properties_size > MOST_PROPERTIES:
            return 1
        size = ENTRY_HEAD + len(body) + 2 + properties_size
        if size > most - self.size:
            return 1
        self.ids.append(uniq_key)
        to = self.more(size)
        put32(to, <uint32_t>size)
        put64(to + 4, 0)
        put32(to + 12, <uint32_t><int64_t>flag)
        put32(to + 16, <uint32_t>len(body))
        to = append_bytes(to + ENTRY_HEAD, octets_of(body), len(body))
        put16(to, <uint32_t>properties_size)
        to += 2
        for own_name, own_value in pairs:
            at = text_at(own_name, &size)
            to = append_bytes(to, at, size)
            to[0] = 1
            at = text_at(own_value, &size)
            to = append_bytes(to + 1, at, size)
            to[0] = 2
            to += 1
        to = put_property(to, b"KEYS\x01", 5, keys, keys_size)
        to = put_property(to, b"TAGS\x01", 5, tags, tags_size)
        put_property(to, b"UNIQ_KEY\x01", 9, uniq, uniq_size)
        return 0


def batch_of(messages, type kind not None, topic, int64_t most, str prefix not None, int64_t tick):
    """Return the body of a batch of usual messages of a topic, and their UNIQ_KEYs, joined by commas.

    Messages are of `kind`; their bodies and the batch have at most `most` bytes. The message at k without a UNIQ_KEY
    gets `prefix` with 12 hex digits of `tick` + k. None if one is left over; no message has got a key then.
    """
    cdef BatchBody batch
    cdef uint8_t[KEY_DIGITS] digits
    if (
        type(messages) not in (list, tuple) or type(topic) is not str or not 0 <= most <= 0x7FFFFFFF
        or not 0 <= tick <= (1 << 48) - len(messages)
    ):
        return None
    batch = BatchBody(min(most, 256 * len(messages)))
    for message in list(messages):
        put_digits(digits, <uint64_t>tick, KEY_DIGITS)
        new_key = prefix + PyUnicode_FromStringAndSize(<const char *>digits, KEY_DIGITS)
        tick += 1
        if type(message) is not kind or batch.add(message, topic, most, new_key):
            for one in batch.given:
                one.uniq_key = ""
            return None
    return PyBytes_FromStringAndSize(PyByteArray_AsString(batch.data), batch.size), ",".join(batch.ids)

# Single puts of usual messages through maps: see `append/put_route.py`; `append/put_path.py` is the definition.
#
# Nothing below runs Python code or releases the GIL between the look at the locks and the last store, so no other thread
# sees a message half put. Stores come in the order of Python's writes: record, unit, index entries, confirm offset.

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "time.h" nogil:
    cdef struct timespec:
        int64_t tv_sec
        int64_t tv_nsec
    const int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *found)

cdef extern from *:
    """
    #define stores_before_this() __atomic_thread_fence(__ATOMIC_RELEASE)
    """
    void stores_before_this() noexcept nogil

cdef enum:
    MOST_AT_ONCE = 65536  # bytes of a record that is copied without releasing the GIL
    CONFIRM_AT = 8  # of the confirm offset in its file
    NO_LOG = 1  # reasons for which a usual message is left over
    NO_QUEUE = 2
    NO_INDEX = 4


cdef object new_tuple = tuple.__new__

NO_QUEUE_WINDOW = NO_QUEUE
"""`PutRoute.missing` if the queue needs a window."""


cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec found
    clock_gettime(CLOCK_MONOTONIC, &found)
    return found.tv_sec * 1000000000 + found.tv_nsec


cdef class Window:
    """Memory to which the kernel stores: bytes [`start`, `stop`) of a file, or numbers (int64) that Python has too.

    It may be closed at any time; then it has no space.
    """

    cdef Py_buffer view
    cdef uint8_t *at
    cdef int64_t *numbers
    cdef int64_t count
    cdef readonly int64_t start, stop

    def __init__(self, memory, int64_t start=0):
        if self.at != NULL:
            raise ValueError("the window is open")
        PyObject_GetBuffer(memory, &self.view, PyBUF_WRITABLE)
        self.at, self.numbers = <uint8_t *>self.view.buf, <int64_t *>self.view.buf
        self.start, self.stop, self.count = start, start + self.view.len, self.view.len // 8

    cpdef close(self):
        """Let go of the memory."""
        if self.at != NULL:
            self.at, self.numbers, self.start, self.stop, self.count = NULL, NULL, 0, 0, 0
            PyBuffer_Release(&self.view)

    def __dealloc__(self):
        self.close()


cdef class RouteQueue:
    """A queue: the array of its topic's next offsets, the marks of its unsynced units, and where the next units go."""

    cdef object offsets
    cdef Window next, marks, units


cdef class PutRoute:
    """Puts messages to the queues that it was taught.

    `numbers` are windows on: the log's end; the newest store time; the number of puts; confirm offset, newest
    dispatched store time and place; the encoder's next tick of a UNIQ_KEY, the end of the reserved ones, and their time.
    `is_held` and `is_full` return True if the put lock is held, if the disk is full. `taken` counts the puts.
    """

    cdef MessageWriter writer
    cdef object message_kind, result_kind, put_ok, encoder, now_ms, is_held, is_full, dispatch, fence, slow_put
    cdef object hold, release, pending
    cdef object turns
    cdef dict counts, near
    cdef bytes id_prefix
    cdef Window log_end, newest, puts, dispatched, ids, confirm, log, index, header
    cdef Records records
    cdef int64_t log_stop, slots, entries, slow_ns
    cdef bint is_open
    cdef readonly int64_t taken
    cdef public int missing

    def __init__(self, MessageWriter writer, kinds, encoder, numbers, calls, dispatch, fence, topics, str id_prefix, int64_t slow_ns):
        self.writer, self.encoder, self.dispatch, self.fence, self.slow_ns = writer, encoder, dispatch, fence, slow_ns
        self.message_kind, self.result_kind, self.put_ok = kinds
        self.log_end, self.newest, self.puts, self.dispatched, self.ids = [Window(one) for one in numbers]
        self.now_ms, self.is_held, self.is_full, self.hold, self.release, self.slow_put = calls
        self.pending = dispatch.pending
        self.counts, self.turns, self.near = topics
        self.id_prefix = id_prefix.encode()
        self.records = Records()
        if (
            self.log_end.count < 1 or self.newest.count < 1 or self.puts.count < 1 or self.dispatched.count < 3
            or self.ids.count < 3 or len(self.id_prefix) != 16
        ):
            raise ValueError("other numbers")

    def open(self, Window log not None, int64_t log_stop, Window confirm not None, index):
        """Put to this window of the log, before `log_stop`; `index`: window, header, slots and entries, or None."""
        self.is_open = False
        self.log, self.log_stop, self.confirm, self.index = log, min(log_stop, log.stop), confirm, None
        if index is not None:
            self.index, self.header, self.slots, self.entries = index
            if self.header.count < 6 or self.slots <= 0 or self.slots > self.index.stop:
                raise ValueError("other numbers")
        self.is_open = confirm.stop >= CONFIRM_AT + 8

    def teach(self, topic, int64_t queue_id, offsets, marks, Window units not None):
        """Put to these units of a queue with these marks; `offsets` has the next offsets of the topic's queues."""
        cdef RouteQueue queue = RouteQueue()
        cdef TopicFacts facts = self.writer.topic_of(topic)
        queue.offsets, queue.next, queue.marks, queue.units = offsets, Window(offsets), Window(marks), units
        if facts is not None and 0 <= queue_id < queue.next.count and queue.marks.count >= 3:
            facts.queues[queue_id] = queue

    def close(self):
        """Leave all over from now on."""
        cdef TopicFacts topic
        self.is_open = False
        for known in self.writer.topics.values():
            topic = known
            topic.queues = {}
        for window in (self.log, self.confirm, self.index, self.header):
            if window is not None:
                (<Window>window).close()

    def put(self, message):
        """Store a usual message and return its result; return None if it is left over.

        `missing` says why, if another window would help.
        """
        cdef TopicFacts topic
        cdef RouteQueue queue
        cdef Records records = self.records
        cdef int64_t now, queue_id, count, turn, began
        cdef uint32_t state = 0
        cdef const uint8_t *shard
        cdef int64_t shard_size
        self.missing = 0
        if not self.is_open or message.__class__ is not self.message_kind:
            if not self.is_open:
                self.missing = NO_LOG
            return None
        began = monotonic_ns()
        name = message.topic
        known = self.writer.topics.get(name) if type(name) is str else None
        number = self.counts.get(name) if known is not None else None
        if number is None:
            return None
        topic, count = known, number
        now = self.now_ms()
        if now < self.newest.numbers[0]:
            now = self.newest.numbers[0]
        if self.ids.numbers[2] != now or self.ids.numbers[0] + 1 > self.ids.numbers[1]:
            self.encoder.begin_run(1, now)
        if self.is_full() or records is None:
            return None
        given = message.queue_id
        turn = -1
        if given is not None:
            if type(given) is not int or not 0 <= given < count:
                return None
            queue_id = given
        elif message.sharding_key:
            shard = text_at(message.sharding_key, &shard_size)
            if shard == NULL or text_hash(&state, shard, shard_size) < 0 or count <= 0:
                return None
            queue_id = abs(<int64_t><int32_t>state) % count
        else:
            next_turn = self.turns.get(name)
            if next_turn is None or count <= 0:
                return None
            turn = next_turn
            queue_id = turn % count
        found = topic.queues.get(queue_id)
        if found is None:
            self.missing = NO_QUEUE
            return None
        queue = found
        self.records = None  # another thread may put while a collection of garbage runs
        try:
            self.give_id(records)
            if self.writer.take(message, topic, queue_id, now, records) or records.size > MOST_AT_ONCE:
                return None
            return self.store(name, queue, queue_id, turn, now, began, records)
        finally:
            self.records = records

    cdef int give_id(self, Records records) except -1:
        """Write the UNIQ_KEY for a message without one."""
        cdef str prefix = self.encoder.uniq_prefix
        cdef Py_ssize_t size
        cdef const char *at = PyUnicode_AsUTF8AndSize(prefix, &size)
        records.new_id_size, records.tick = 0, self.ids.numbers[0]
        if size + 12 <= NEW_ID:
            memcpy(records.new_id, at, size)
            put_digits(records.new_id + size, <uint64_t>records.tick, 12)
            records.new_id_size = size + 12
        return 0

    cdef object store(
        self, name, RouteQueue queue, int64_t queue_id, int64_t turn, int64_t now, int64_t began, Records records
    ):
        cdef int64_t *dispatched = self.dispatched.numbers
        cdef int64_t *header = NULL
        cdef int64_t *marks
        cdef uint8_t *record = <uint8_t *>PyByteArray_AsString(records.data)
        cdef uint8_t *unit
        cdef uint8_t *table
        cdef int64_t place, end, offset, first, at, seconds
        cdef uint8_t[32] text
        after = turn + 1
        if self.is_held() or not self.hold(False):
            return None
        try:
            place, end = self.log_end.numbers[0], self.log_end.numbers[0] + records.size
            if (
                self.fence.error is not None or self.dispatch.failure is not None
                or self.dispatch.on_dispatched is not None or len(self.pending) or dispatched[0] != place
                or now < self.newest.numbers[0] or not self.is_open
                or turn >= 0 and self.turns.get(name) != turn
                or records.has_new_id and not records.tick == self.ids.numbers[0] < self.ids.numbers[1]
            ):
                return None
            if not self.log.start <= place or end > self.log_stop or end > self.log.stop:
                self.missing = NO_LOG
                return None
            if self.near.get(name) is not queue.offsets or queue_id >= queue.next.count:
                self.missing = NO_QUEUE
                return None
            offset = queue.next.numbers[queue_id]
            if offset <= 0:  # the first message of a queue creates it
                return None
            at = offset * UNIT_SIZE
            if not queue.units.start <= at <= queue.units.stop - UNIT_SIZE:
                self.missing = NO_QUEUE
                return None
            if records.keys and self.index is not None:
                header = self.header.numbers
                if self.index.at == NULL or header == NULL:
                    self.missing = NO_INDEX
                    return None
                first = header[5]
                if first <= 1 or header[3] >= place:  # the first entry of a file begins its header
                    return None
                if first + records.keys > self.entries or (
                    INDEX_HEADER + 4 * self.slots + ENTRY_SIZE * (first + records.keys) > self.index.stop
                ):
                    self.missing = NO_INDEX
                    return None
            if turn >= 0:
                self.turns[name] = after
            # from here on nothing fails
            put_place(record, records.size, offset, place, records.property_crc)
            memcpy(self.log.at + place - self.log.start, record, records.size)
            self.log_end.numbers[0], self.newest.numbers[0] = end, now
            self.puts.numbers[0] += 1
            self.ids.numbers[0] += records.has_new_id
            queue.next.numbers[queue_id] = offset + 1
            unit = queue.units.at + at - queue.units.start
            put_unit(unit, place, records.size, records.one.tags_code)
            marks = queue.marks.numbers
            if marks[0] < 0 or at < marks[0]:
                marks[0] = at
            marks[1] += UNIT_SIZE
            marks[2] += 1
            if header != NULL:
                table, seconds = self.index.at + INDEX_HEADER, seconds_since(header[0], now)
                for at in range(records.keys):
                    header[4] += link_entry(table, self.slots, first + at, records.hashes[at], place, seconds)
                header[1], header[3], header[5] = now, place, first + records.keys
                for at in range(4):
                    put64(self.index.at + 8 * at, <uint64_t>header[at])
                put32(self.index.at + 32, <uint32_t>header[4])
                put32(self.index.at + 36, <uint32_t>header[5])
            stores_before_this()
            memcpy(self.confirm.at + CONFIRM_AT, &end, 8)
            dispatched[0], dispatched[1], dispatched[2] = end, now, place
            self.taken += 1
        finally:
            self.release()
        memcpy(text, octets_of(self.id_prefix), 16)
        put_digits(text + 16, <uint64_t>place, 16)
        began = monotonic_ns() - began
        if began >= self.slow_ns:
            self.slow_put(began, 1)
        return new_tuple(
            self.result_kind,
            (
                self.put_ok, name, queue_id, offset, place, PyUnicode_FromStringAndSize(<const char *>text, 32), now, "", 1,
                None, records.size,
            ),
        )

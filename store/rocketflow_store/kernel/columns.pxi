"""Checked records of one queue as the buffers of Arrow columns."""

cdef enum:
    MAX_NUMBERS = 16

cdef struct Number:
    # a field `offset` bytes after the record's begin, if both hosts are IPv4
    int offset
    int hosts
    int width
    int64_t factor
    int64_t low
    int64_t end
    uint8_t *values

cdef struct Values:
    uint8_t *valid
    int32_t *offsets
    uint8_t *octets
    int64_t room
    int64_t total
    int64_t present


cdef inline bint take_value(Values *values, Py_ssize_t row, const uint8_t *at, int64_t size) noexcept nogil:
    """Append a value; return False if there is no room for it."""
    if size > values.room - values.total:
        return False
    if size:
        memcpy(values.octets + values.total, at, size)
    values.total += size
    values.offsets[row + 1] = <int32_t>values.total
    return True


cdef int take_buffers(uint8_t[::1] valid, int32_t[::1] offsets, uint8_t[::1] octets, Py_ssize_t count, Values *values) except -1:
    """Take the buffers of a column of `count` values; the caller keeps them alive."""
    if offsets.shape[0] != count + 1 or octets.shape[0] < 1 or octets.shape[0] > 0x7FFFFFFF:
        raise ValueError("a buffer has another size")
    values.valid = NULL
    if valid is not None:
        if valid.shape[0] != (count + 7) // 8:
            raise ValueError("a bitmap has another size")
        values.valid = &valid[0]
    values.offsets, values.octets, values.room = &offsets[0], &octets[0], octets.shape[0]
    values.total = values.present = 0
    values.offsets[0] = 0
    return 0


cdef inline bint take_number(const RecordParts *parts, const Number *field, Py_ssize_t row) noexcept nogil:
    """Append a number; return False if it is outside of its range."""
    cdef const uint8_t *at = parts.record + field.offset
    cdef int64_t value
    cdef int32_t narrow
    if field.hosts == 1:
        at += parts.born_more
    elif field.hosts == 2:
        at += parts.hosts_more
    if field.width == 4:
        narrow = <int32_t>get32(at)
        memcpy(field.values + 4 * row, &narrow, 4)
        return True
    value = <int64_t>get64(at)
    if field.factor != 1:
        if value < field.low or value >= field.end:
            return False
        value *= field.factor
    memcpy(field.values + 8 * row, &value, 8)
    return True


def queue_columns(
    const uint8_t[::1] log not None,
    tuple rows not None,
    tuple queue not None,
    int contents,
    uint32_t left_over_flags,
    list numbers not None,
    tuple body,
    list texts not None,
):
    """Fill the buffers of columns with records of one queue; return what was seen, None if a record is left over.

    `rows` are (positions, sizes, physical offsets, queue offsets) of the records, `queue` is (topic, queue id): each
    record must claim to be that message. `contents` is 0 to check no CRC, 1 to check the record's own, 2 to check it or
    the body's. A record with one of `left_over_flags` is left over.

    A number is (offset, hosts before it, width, factor, low, end, buffer). If its factor is not 1, values outside of
    [low, end) are left over, and others are multiplied by it.
    `body` is None or (offsets, octets); a text is (name, valid, offsets, octets): the value of a property. Offsets are
    int32; `octets` must hold all values.

    Returns (first and last physical offset of the records without a CRC of their own or -1, all flags, bytes of bodies,
    [(values, bytes) of each text]).
    """
    cdef const int64_t[::1] positions = rows[0], sizes = rows[1], places = rows[2], queue_offsets = rows[3]
    cdef Py_ssize_t count = positions.shape[0], row = 0
    cdef bytes topic = queue[0]
    cdef const uint8_t *topic_at = topic
    cdef int64_t topic_size = len(topic), extent = log.shape[0], queue_id = queue[1], value
    cdef Number fields[MAX_NUMBERS]
    cdef Values bodies
    cdef Values columns[MAX_NAMES]
    cdef Text found[MAX_NAMES]
    cdef Names names
    cdef int one, number_count = 0, judged = 0
    cdef bint with_body = body is not None
    cdef uint8_t[::1] octets
    cdef const uint8_t *first
    cdef const uint8_t *at
    cdef RecordParts parts
    cdef int64_t bare_first = -1, bare_last = -1
    cdef uint32_t flags = 0
    if count == 0 or extent == 0 or len(numbers) > MAX_NUMBERS:
        return None
    if sizes.shape[0] != count or places.shape[0] != count or queue_offsets.shape[0] != count:
        raise ValueError("rows of different counts")
    for offset, hosts, width, factor, low, end, octets in numbers:
        if not (0 <= offset <= HEAD_SIZE - width and width in (4, 8) and octets.shape[0] == width * count):
            raise ValueError("a number has another width")
        fields[number_count] = Number(offset, hosts, width, factor, low, end, &octets[0])
        number_count += 1
    take_names(tuple([text[0] for text in texts]), &names)
    for one in range(names.count):
        take_buffers(texts[one][1], texts[one][2], texts[one][3], count, &columns[one])
    if with_body:
        take_buffers(None, body[0], body[1], count, &bodies)
    first = &log[0]
    with nogil:
        for row in range(count):
            if positions[row] < 0 or sizes[row] < LEAST_RECORD or positions[row] > extent - sizes[row]:
                break
            at = first + positions[row]
            if row + ROWS_AHEAD < count:
                value = positions[row + ROWS_AHEAD]
                if 0 <= value < extent:
                    prefetch_octets(first + value, min(sizes[row + ROWS_AHEAD], extent - value, MOST_AHEAD))
            if not parts_of_record(at, sizes[row], &parts) or parts.sys_flag & left_over_flags:
                break
            if <int64_t>get64(at + 28) != places[row] or <int64_t>get64(at + 20) != queue_offsets[row]:
                break
            if <int32_t>get32(at + 12) != queue_id:
                break
            if parts.topic_size != topic_size or memcmp(at + parts.topic, topic_at, topic_size) != 0:
                break
            if contents:
                judged = judge_record(&parts, contents == 2)
                if judged < 0:
                    break
                if judged == 0:
                    bare_last = places[row]
                    if bare_first < 0:
                        bare_first = bare_last
            flags |= parts.sys_flag
            for one in range(number_count):
                if not take_number(&parts, &fields[one], row):
                    break
            else:
                if with_body and not take_value(&bodies, row, at + parts.body, parts.body_size):
                    break
                if names.count == 0:
                    continue
                find_properties(&parts, &names, found)
                for one in range(names.count):
                    if not take_value(&columns[one], row, found[one].at, found[one].size):
                        break
                    if found[one].size:
                        columns[one].valid[row >> 3] |= <uint8_t>(1 << (row & 7))
                        columns[one].present += 1
                else:
                    continue
            break
        else:
            row = count
    if row < count:
        return None
    seen = [(columns[one].present, columns[one].total) for one in range(names.count)]
    return bare_first, bare_last, flags, bodies.total if with_body else 0, seen

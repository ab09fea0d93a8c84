# Java's hashes of UTF-8: tags codes, and the key hashes of index entries.


cdef int text_hash(uint32_t *hash, const uint8_t *at, int64_t size) noexcept nogil:
    """Continue Java's hash with a text; return -1 if it is not UTF-8, which Java reads in its own way."""
    cdef const uint8_t *end = at + size
    cdef uint32_t value = hash[0], point
    cdef int more, one
    cdef uint8_t octet
    while at < end:
        while end - at >= 4 and not (at[0] | at[1] | at[2] | at[3]) & 0x80:
            # 31 ** 4, so that four bytes wait for one product
            value = value * 923521u + (at[0] * 29791u + at[1] * 961u + (at[2] * 31u + at[3]))
            at += 4
        if at == end:
            break
        octet = at[0]
        at += 1
        if octet < 0x80:
            value = value * 31u + octet
            continue
        if octet < 0xC2 or octet > 0xF4:
            return -1
        more = 1 if octet < 0xE0 else 2 if octet < 0xF0 else 3
        point = octet & (0x3Fu >> more)
        if end - at < more:
            return -1
        for one in range(more):
            if at[one] & 0xC0 != 0x80:
                return -1
            point = point << 6 | (at[one] & 0x3Fu)
        at += more
        if (more == 2 and (point < 0x800u or 0xD800u <= point < 0xE000u)) or (more == 3 and not 0x10000u <= point < 0x110000u):
            return -1
        if more == 3:
            value = value * 31u + (0xD800u + ((point - 0x10000u) >> 10))
            point = 0xDC00u + (point & 0x3FFu)
        value = value * 31u + point
    hash[0] = value
    return 0


cdef inline int32_t index_hash_of(uint32_t state) noexcept nogil:
    """Return the key hash of an index entry, in [0, 2**31)."""
    if state == 0x80000000u:
        return 0
    return <int32_t>(0u - state if state & 0x80000000u else state)

"""Comparisons of `verify`: records with their units, entries of the index with each other and with the log."""


cdef enum:
    NEAR = 8


def same_units(
    const uint8_t[::1] units not None,
    int64_t first,
    const int64_t[::1] rows not None,
    tuple columns not None,
    bint tags,
):
    """Return whether each of `rows` has its unit in `units`, which begin with that of queue offset `first`.

    `columns` are (queue offsets, physical offsets, sizes, tags codes) of all records; codes are compared if `tags`.
    """
    cdef const int64_t[::1] queue_offsets = columns[0], places = columns[1], sizes = columns[2], codes = columns[3]
    cdef int64_t count = queue_offsets.shape[0], known = units.shape[0] // UNIT_SIZE, row, at
    cdef Py_ssize_t one = 0
    cdef bint same = False
    cdef const uint8_t *unit
    if places.shape[0] != count or sizes.shape[0] != count or codes.shape[0] != count or known == 0:
        return False
    with nogil:
        for one in range(rows.shape[0]):
            row = rows[one]
            if not 0 <= row < count or queue_offsets[row] < first or sizes[row] <= 0 or places[row] < 0:
                break
            at = <int64_t>(<uint64_t>queue_offsets[row] - <uint64_t>first)
            if not 0 <= at < known:
                break
            unit = &units[UNIT_SIZE * at]
            if <int64_t>get64(unit) != places[row] or <int32_t>get32(unit + 8) != sizes[row]:
                break
            if tags and <int64_t>get64(unit + 12) != codes[row]:
                break
        else:
            same = True
    return same


def follow_chain(const uint8_t[::1] entries not None, int32_t first, int32_t[::1] heads not None, uint8_t[::1] wrong not None):
    """Follow entries of an index file from number `first` on; return (the lowest, the highest) physical offset.

    `heads` has the newest entry of each slot, `wrong` gets 1 for each entry that names another predecessor.
    """
    cdef int64_t count = entries.shape[0] // ENTRY_SIZE, slots = heads.shape[0], slot, place
    cdef int64_t low = 0x7FFFFFFFFFFFFFFF, high = -0x7FFFFFFFFFFFFFFF - 1
    cdef int64_t one
    cdef const uint8_t *entry
    if wrong.shape[0] != count or slots == 0 or count == 0:
        raise ValueError("entries of different counts")
    with nogil:
        for one in range(count):
            entry = &entries[ENTRY_SIZE * one]
            slot = slot_of(<int32_t>get32(entry), slots)
            wrong[one] = <int32_t>get32(entry + 16) != heads[slot]
            heads[slot] = <int32_t>(first + one)
            place = <int64_t>get64(entry + 4)
            low, high = min(low, place), max(high, place)
    return low, high


def index_pairs(
    tuple entries not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] times not None,
    const uint8_t[::1] with_tags not None,
    int64_t[::1] pairs not None,
    int64_t[::1] pair_times not None,
    uint8_t[::1] must not None,
):
    """Fill what the index may have of rows, one for each of `entries` (hashes, rows, 1 for TAGS).

    A pair is position << 32 | key hash. `must` is 0 for TAGS of a row without `with_tags`. ValueError for another row.
    """
    cdef const int32_t[::1] hashes = entries[0]
    cdef const int64_t[::1] of_row = entries[1]
    cdef const uint8_t[::1] of_tag = entries[2]
    cdef int64_t count = hashes.shape[0], rows = positions.shape[0], one = 0, row
    if of_row.shape[0] != count or of_tag.shape[0] != count or times.shape[0] != rows or with_tags.shape[0] != rows:
        raise ValueError("columns of different counts")
    if pairs.shape[0] != count or pair_times.shape[0] != count or must.shape[0] != count:
        raise ValueError("columns of different counts")
    with nogil:
        for one in range(count):
            row = of_row[one]
            if not 0 <= row < rows:
                break
            pairs[one] = <int64_t>(<uint64_t>positions[row] << 32 | <uint32_t>hashes[one])
            pair_times[one] = times[row]
            must[one] = not of_tag[one] or with_tags[row] != 0
        else:
            one = count
    if one < count:
        raise ValueError("an entry of no row")


def match_in_order(
    const uint8_t[::1] entries not None,
    bint is_first,
    tuple stretch not None,
    tuple expected not None,
    int64_t begin,
    int64_t at,
):
    """Compare entries of the index with those that records must have or may have, from `at` on in the same order.

    Arguments are those of `match_entries`, but for `expected` (pairs, store times, 1 for each that must be there), in
    any order. Returns the number of the next expected one; -1 if an entry of the stretch is not the next one.
    """
    cdef const int64_t[::1] pairs = expected[0], times = expected[1]
    cdef const uint8_t[::1] must = expected[2]
    cdef int64_t start = stretch[0], stop = stretch[1], count = entries.shape[0] // ENTRY_SIZE, total = pairs.shape[0]
    cdef int64_t one, place, wanted
    cdef const uint8_t *entry
    if times.shape[0] != total or must.shape[0] != total or at < 0:
        raise ValueError("entries of different counts")
    with nogil:
        for one in range(count):
            entry = &entries[ENTRY_SIZE * one]
            place = <int64_t>get64(entry + 4)
            if not start <= place < stop:
                continue
            wanted = <int64_t>((<uint64_t>place - <uint64_t>start) << 32 | get32(entry))
            while at < total and pairs[at] != wanted and not must[at]:
                at += 1
            if at >= total or pairs[at] != wanted:
                at = -1
                break
            if begin > 0 and not (is_first and one == 0) and seconds_since(begin, times[at]) != <int32_t>get32(entry + 12):
                at = -1
                break
            at += 1
    return at


def match_entries(
    const uint8_t[::1] entries not None,
    bint is_first,
    tuple stretch not None,
    tuple expected not None,
    int64_t begin,
    uint8_t[::1] seen not None,
    uint8_t[::1] wrong not None,
):
    """Compare entries of the index with those that the records in `stretch` [start, stop) may have.

    `expected` are (ascending pairs, store times): (physical offset - start) << 32 | key hash. `begin` is the time of the
    file, not positive if its entries have none; `is_first` says that the first entry is that of the file, whose time is
    another. `seen` gets 1 for each pair that is there, `wrong` for each entry in the stretch that is no pair.
    """
    cdef const int64_t[::1] pairs = expected[0], times = expected[1]
    cdef int64_t start = stretch[0], stop = stretch[1], count = entries.shape[0] // ENTRY_SIZE, total = pairs.shape[0]
    cdef int64_t one, place, wanted, at = 0, low, high
    cdef const uint8_t *entry
    if wrong.shape[0] != count or seen.shape[0] != total or times.shape[0] != total:
        raise ValueError("entries of different counts")
    with nogil:
        for one in range(count):
            entry = &entries[ENTRY_SIZE * one]
            place = <int64_t>get64(entry + 4)
            wrong[one] = 0
            if not start <= place < stop:
                continue
            wrong[one] = 1
            wanted = <int64_t>((<uint64_t>place - <uint64_t>start) << 32 | get32(entry))
            # the pair is near that of the entry before, if any
            low, high = 0, at
            if at < total and pairs[at] <= wanted:
                low, high = at, total
                if low + NEAR < total and pairs[low + NEAR] >= wanted:
                    high = low + NEAR
            while low < high:
                at = low + (high - low) // 2
                if pairs[at] < wanted:
                    low = at + 1
                else:
                    high = at
            at = low
            if at == total or pairs[at] != wanted:
                continue
            seen[at] = 1
            if begin > 0 and not (is_first and one == 0):
                if <int32_t>get32(entry + 12) != seconds_since(begin, times[at]):
                    continue
            wrong[one] = 0

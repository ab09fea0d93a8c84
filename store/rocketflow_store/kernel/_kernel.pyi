from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Buffer

INTERFACE: int

def crc32(data: Buffer, folds: int = 2) -> int: ...

# record.pxi, columns.pxi, walk.pxi

StoredParts = tuple[tuple[str, int, bytes, bytes, int, int, int, bytes, int, int], int, int, int, bytes]

def stored_parts(record: Buffer) -> StoredParts | None: ...
def judge_records(log: Buffer, positions: Buffer, sizes: Buffer, bodies: bool, protected: Buffer) -> int: ...
def queue_columns(
    log: Buffer,
    rows: tuple[Buffer, Buffer, Buffer, Buffer],
    queue: tuple[bytes, int],
    contents: int,
    left_over_flags: int,
    numbers: list[tuple[object, ...]],
    body: tuple[Buffer, Buffer] | None,
    texts: list[tuple[bytes, Buffer, Buffer, Buffer]],
) -> tuple[int, int, int, int, list[tuple[int, int]]] | None: ...
def follow_records(data: Buffer, position: int, limit: int, positions: Buffer, sizes: Buffer) -> tuple[int, int]: ...
def follow_sizes(data: Buffer, position: int, limit: int, least_size: int, positions: Buffer) -> tuple[int, int]: ...
def dispatch_rows(
    log: Buffer,
    positions: Buffer,
    sizes: Buffer,
    checked: tuple[int, int, int] | None,
    names: tuple[bytes, bytes, bytes, bytes, bytes],
    tag_prefix: bytes,
    schedule_topic: bytes,
    delays_ms: Buffer,
    columns: tuple[Buffer, Buffer, Buffer, Buffer, Buffer],
    entry_columns: tuple[Buffer, Buffer, Buffer],
) -> tuple[int, int, list[tuple[bytes, int]]] | None: ...
def same_units(
    units: Buffer, first: int, rows: Buffer, columns: tuple[Buffer, Buffer, Buffer, Buffer], tags: bool
) -> bool: ...
def follow_chain(entries: Buffer, first: int, heads: Buffer, wrong: Buffer) -> tuple[int, int]: ...
def index_pairs(
    entries: tuple[Buffer, Buffer, Buffer],
    positions: Buffer,
    times: Buffer,
    with_tags: Buffer,
    pairs: Buffer,
    pair_times: Buffer,
    must: Buffer,
) -> None: ...
def match_in_order(
    entries: Buffer,
    is_first: bool,
    stretch: tuple[int, int],
    expected: tuple[Buffer, Buffer, Buffer],
    begin: int,
    at: int,
) -> int: ...
def match_entries(
    entries: Buffer,
    is_first: bool,
    stretch: tuple[int, int],
    expected: tuple[Buffer, Buffer],
    begin: int,
    seen: Buffer,
    wrong: Buffer,
) -> None: ...

# pulls.pxi

def first_span(units: bytes, most_bytes: int, room: int, max_gap: int) -> tuple[int, int]: ...
def sound_records(
    raw: bytearray, units: bytes, queue_id: int, topic_part: bytes, first: int, offsets: Buffer | None = None
) -> int: ...

# encode.pxi

Texts = tuple[bytes, Buffer, Buffer, Buffer | None, int]

class RowEncoder:
    size: int
    keys: int
    def __init__(
        self,
        body_ends: Buffer,
        bodies: Buffer,
        written: Sequence[Texts],
        ids: Sequence[Texts | None],
        new_ids: tuple[bytes, int] | None,
        reserved: int,
        index: bool,
    ) -> None: ...
    def encode(
        self,
        head: Buffer,
        topic_ends: Buffer,
        topic_parts: Buffer,
        topics: Buffer,
        topic_codes: Buffer,
        queue_ids: Buffer,
        flags: Buffer | None,
        born: Buffer | None,
        records: Buffer,
        starts: Buffer,
        sizes: Buffer,
        body_crcs: Buffer,
        tags_codes: Buffer,
        hashes: Buffer,
        of_row: Buffer,
        of_tag: Buffer,
        row_hashes: Buffer | None,
        hashed_born: Buffer | None,
        hashed_queues: Buffer | None,
    ) -> int: ...

def place_records(
    octets: Buffer,
    starts: Buffer,
    sizes: Buffer,
    phy_offsets: Buffer,
    queue_offsets: Buffer,
    store_timestamp: int,
    property_crc: bool,
) -> bool: ...

# dispatch.pxi

def units_by_queue(
    queue_of: Buffer,
    queue_offsets: Buffer,
    phy_offsets: Buffer,
    sizes: Buffer,
    tags_codes: Buffer,
    queues: Buffer,
    runs: Buffer,
    units: Buffer,
) -> int: ...
def rows_by_queue(
    queue_of: Buffer, queue_offsets: Buffer, phy_offsets: Buffer, queues: int, order: Buffer, runs: Buffer
) -> tuple[int, int]: ...
def put_index_entries(
    mapped: Buffer,
    slots: int,
    first: int,
    begin_timestamp: int,
    hashes: Buffer,
    phy_offsets: Buffer,
    store_timestamps: Buffer,
) -> int: ...
def follow_index_rows(rows: Buffer, newest: Buffer, first: int, begin_timestamp: int, entries: Buffer) -> int: ...
def put_index_run(
    mapped: Buffer,
    slots: int,
    first: int,
    begin_timestamp: int,
    hashes: Sequence[int],
    phy_offsets: Sequence[int],
    count: int,
    store_timestamp: int,
) -> int: ...

# puts.pxi

class Records:
    data: bytearray
    count: int
    size: int
    def place(self, queue_offset: int, phy_offset: int) -> tuple[bytes, list[int], list[int]]: ...
    def ids(self, prefix: str, phy_offset: int) -> str: ...

class MessageWriter:
    def __init__(
        self,
        host: bytes,
        property_crc: bool,
        tag_entries: bool,
        most_body: int,
        most_record: int,
        check_topic: Callable[[str], None],
        next_id: Callable[[], str],
    ) -> None: ...
    def message(self, message: object, queue_id: int, now: int) -> Records | None: ...
    def batch(
        self,
        topic_name: object,
        body: bytes,
        suffix: bytes,
        queue_id: int,
        sys_flag: int,
        born: int,
        born_host: bytes,
        reconsume_times: int,
        now: int,
        most_properties: int,
        most: int,
    ) -> Records | None: ...

# batches.pxi

def batch_of(
    messages: object, kind: type, topic: object, most: int, prefix: str, tick: int
) -> tuple[bytes, str] | None: ...

# route.pxi

NO_QUEUE_WINDOW: int

class Window:
    start: int
    stop: int
    def __init__(self, memory: Buffer, start: int = 0) -> None: ...
    def close(self) -> None: ...

class PutRoute:
    missing: int
    taken: int
    def __init__(
        self,
        writer: MessageWriter,
        kinds: tuple[type, type, object],
        encoder: object,
        numbers: Sequence[Buffer],
        calls: tuple[Callable[..., Any], ...],
        dispatch: object,
        fence: object,
        topics: tuple[dict[str, int], dict[str, int], dict[str, Any]],
        id_prefix: str,
        slow_ns: int,
    ) -> None: ...
    def open(
        self, log: Window, log_stop: int, confirm: Window, index: tuple[Window, Window, int, int] | None
    ) -> None: ...
    def teach(self, topic: str, queue_id: int, offsets: Buffer, marks: Buffer, units: Window) -> None: ...
    def put(self, message: object) -> Any: ...
    def close(self) -> None: ...

# prepared.pxi

def are_prepared(
    octets: Buffer,
    starts: Buffer,
    sizes: Buffer,
    topic_ends: Buffer,
    topic_parts: Buffer,
    topics: Buffer,
    topic_codes: Buffer,
    queue_ids: Buffer,
    tags_codes: Buffer,
    hashes: Buffer,
    of_row: Buffer,
    of_tag: Buffer,
    property_crc: bool,
    most_body: int,
    most_record: int,
    most_queues: int,
) -> bool: ...

from typing_extensions import Buffer

INTERFACE: int

def crc32(data: Buffer) -> int: ...

# record.pxi, columns.pxi, walk.pxi

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

def sound_records(
    raw: Buffer,
    starts: list[int],
    sizes: list[int],
    offsets: list[int],
    phy_offsets: list[int],
    queue_id: int,
    topic_part: bytes,
) -> int: ...
def close_gaps(raw: bytearray, starts: list[int], sizes: list[int]) -> int: ...

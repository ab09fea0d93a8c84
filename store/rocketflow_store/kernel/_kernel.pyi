from typing_extensions import Buffer

INTERFACE: int

def crc32(data: Buffer) -> int: ...
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

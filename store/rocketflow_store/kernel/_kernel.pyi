from typing_extensions import Buffer

INTERFACE: int

def crc32(data: Buffer) -> int: ...

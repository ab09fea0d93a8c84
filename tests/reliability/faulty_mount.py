"""A file system of one directory whose pages can become unreadable: `python -m tests.reliability.faulty_mount DIR AT`.

It speaks the kernel's FUSE protocol on /dev/fuse and passes everything on to the files of DIR. Reading a page that is
listed in the file DIR.bad (lines of NAME FIRST LAST, bytes) fails with EIO, as on a disk with a bad sector; an access
through a memory map gets SIGBUS. The process ends when AT is unmounted.
"""

from __future__ import annotations

import enum
import errno
import os
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.trials import ROOT, environment

_IN, _OUT = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_ATTR = struct.Struct("<6Q10I")
_READ, _PAGE, _MAX_PAGES = struct.Struct("<QQI"), 4096, 1 << 22


class Op(enum.IntEnum):
    """Requests that are answered."""

    LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 3, 4, 14, 15, 16, 17, 18, 20
    FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, ACCESS, DESTROY = 25, 26, 27, 28, 29, 30, 34, 38


SILENT = {2, 36, 42}
"""FORGET, INTERRUPT, BATCH_FORGET: the kernel expects no answer."""


class Server:
    """Answers requests; node 1 is the directory, node n + 2 the file that is the n-th by its name."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = sorted(os.listdir(directory))
        self._fds = [os.open(directory / name, os.O_RDWR) for name in self._names]

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        """Return the content of the answer; raise OSError for an error answer."""
        match opcode:
            case Op.INIT:
                flags = struct.pack("<HHIIHHI28x", 1, 1, _PAGE, 1, 1, 0, 0)  # no read-ahead, a page at a time
                return struct.pack("<IIII", 7, 31, 0, _MAX_PAGES) + flags
            case Op.LOOKUP:
                name = body.rstrip(b"\0").decode()
                if name not in self._names:
                    raise FileNotFoundError(errno.ENOENT, name)
                found = self._names.index(name) + 2
                return struct.pack("<QQQQII", found, 0, 0, 0, 0, 0) + self._attributes(found)
            case Op.GETATTR:
                return struct.pack("<QII", 0, 0, 0) + self._attributes(node)
            case Op.SETATTR:
                (valid, _, _, size) = struct.unpack_from("<IIQQ", body)
                if valid & 8:  # FATTR_SIZE
                    os.ftruncate(self._fds[node - 2], size)
                return struct.pack("<QII", 0, 0, 0) + self._attributes(node)
            case Op.OPEN | Op.OPENDIR:
                return struct.pack("<QII", node, 0, 0)
            case Op.READ:
                _, offset, size = _READ.unpack_from(body)
                return self._read(node, offset, size)
            case Op.WRITE:
                _, offset, size = _READ.unpack_from(body)
                return struct.pack("<II", os.pwrite(self._fds[node - 2], body[40 : 40 + size], offset), 0)
            case Op.STATFS:
                return struct.pack("<5Q4I24x", 1 << 20, 1 << 19, 1 << 19, 1 << 10, 1 << 9, _PAGE, 255, _PAGE, 0)
            case Op.READDIR:
                return self._entries(*_READ.unpack_from(body)[1:])
            case Op.RELEASE | Op.FSYNC | Op.FLUSH | Op.RELEASEDIR | Op.FSYNCDIR | Op.ACCESS | Op.DESTROY:
                return b""
        raise OSError(errno.ENOSYS, "not this file system")

    def _attributes(self, node: int) -> bytes:
        found = os.stat(self._directory) if node == 1 else os.fstat(self._fds[node - 2])
        times = [int(one) for one in (found.st_atime, found.st_mtime, found.st_ctime)]
        rest = (0, 0, 0, found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, _PAGE, 0)
        return _ATTR.pack(node, found.st_size, found.st_blocks, *times, *rest)

    def _read(self, node: int, offset: int, size: int) -> bytes:
        for line in Path(f"{self._directory}.bad").read_text().splitlines():
            name, first, last = line.split()
            if name == self._names[node - 2] and offset < int(last) and int(first) < offset + size:
                raise OSError(errno.EIO, name)
        return os.pread(self._fds[node - 2], size, offset)

    def _entries(self, offset: int, size: int) -> bytes:
        found = b""
        for number, name in enumerate(self._names[offset:], offset):
            raw = name.encode()
            entry = struct.pack("<QQII", number + 2, number + 1, len(raw), 8) + raw
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found


def serve(directory: Path, at: Path) -> None:
    server = Server(directory)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40755,user_id=0,group_id=0,allow_other"
    mounting: subprocess.Popen[bytes] | None = subprocess.Popen(
        ["mount", "-i", "-t", "fuse", "-o", options, "faulty", str(at)], pass_fds=[fd]
    )
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        if mounting is not None and mounting.poll() is not None:
            if mounting.returncode:
                sys.exit(mounting.returncode)
            mounting = None
            print("mounted", flush=True)
        if not poll.poll(20 if mounting is not None else None):
            continue
        try:
            request = os.read(fd, 1 << 20)
        except OSError as error:
            if error.errno in (
                errno.ENOENT,
                errno.EINTR,
                errno.EPERM,
            ):  # not mounted yet, or the request was cancelled
                continue
            return
        _, opcode, unique, node, *_ = _IN.unpack_from(request)
        if opcode in SILENT:
            continue
        try:
            code, content = 0, server.answer(opcode, node, request[_IN.size :])
        except OSError as error:
            code, content = -(error.errno or errno.EIO), b""
        with suppress(FileNotFoundError):  # the caller has ended
            os.write(fd, _OUT.pack(_OUT.size + len(content), code, unique) + content)


@contextmanager
def mounted(directory: Path) -> Iterator[Path]:
    """Mount the file system on `directory`, whose files move to DIRECTORY.files; yield the list of bad pages."""
    files = directory.with_name(f"{directory.name}.files")
    bad = directory.with_name(f"{files.name}.bad")
    directory.rename(files)
    directory.mkdir()
    bad.write_text("")
    command = [sys.executable, "-m", "tests.reliability.faulty_mount", str(files), str(directory)]
    server = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "mounted\n", "the file system could not be mounted"
        yield bad
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=False, capture_output=True)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:  # a process still has one of its files open
            server.kill()
            server.wait()
        if server.stdout is not None:
            server.stdout.close()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))

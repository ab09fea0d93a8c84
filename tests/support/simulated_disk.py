"""A layer that simulates power loss: it knows which bytes and which directory entries are durable.

The live files are real ones below `root`. The layer keeps the durable state: of each file the bytes of its last
successful sync, of each directory the names of its last sync. Between two syncs a 512-byte sector that was written is
*dirty*; a name that was created, renamed or removed is *pending*.

    with SimulatedDisk(root) as disk:
        ... run a store in root ...
        state = disk.freeze()                 # at any instant, from any thread
    state.crash(target, seed, p=0.5)          # a legal image: each dirty block old or new, each pending name too
    state.kill(target)                        # a killed process instead: every byte, but no more durable than before

Memory maps are covered: writes through a map since the last sync are found by comparing. A sync can be made to fail in
the three ways that Linux knows (`Flavour`).

Not modelled: a page that was written back halfway between two of its versions (the log is only ever appended to).
"""

from __future__ import annotations

import enum
import errno
import os
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import sometimes
from tests.support.disk_layer import Call, Layer

SECTOR = 512


class Flavour(enum.Enum):
    """The state of a file's dirty pages after a failed sync."""

    DIRTY = "they stay dirty"
    CLEAN_NEW = "they count as clean, and the cache shows what was written"
    CLEAN_OLD = "they count as clean, and the cache shows what was there before"


@dataclass
class _File:
    """One file, whatever its names."""

    number: int
    durable: bytes = b""
    dirty: set[int] = field(default_factory=set)
    """Sectors that differ from what is durable and that a sync would write."""
    names: set[str] = field(default_factory=set)
    """Live names, below the root."""
    last: bytes = b""
    """The content, once it has no live name."""
    seen: bytes | None = None
    """Of a mapped file: its content at the last comparison."""


@dataclass(frozen=True)
class _Pending:
    """A change of names: `given` now names a file (None for a directory), `taken` was removed."""

    given: str | None
    file: int | None
    taken: str | None
    folders: frozenset[str]


@dataclass(frozen=True)
class FrozenFile:
    durable: bytes
    live: bytes
    dirty: frozenset[int]


@dataclass(frozen=True)
class State:
    """A snapshot of a disk."""

    names: dict[str, int | None]
    """Durable names; None is a directory."""
    live_names: dict[str, int | None]
    pending: tuple[_Pending, ...]
    files: dict[int, FrozenFile]
    times: dict[str, int]

    def is_durable(self, name: str, start: int, end: int) -> bool:
        """Return True if bytes [start, end) of the file with this live name would survive a power loss."""
        number = self.live_names.get(name)
        if number is None or self.names.get(name) != number:
            return False
        one = self.files[number]  # a sector survives in its old or its new version: bytes equal in both survive
        return len(one.durable) >= end and one.durable[start:end] == one.live[start:end]

    def durable_bytes(self, name: str) -> bytes:
        """Return the bytes of a file that are on the disk, without its dirty sectors."""
        number = self.names[name]
        assert number is not None
        return self.files[number].durable

    def crash(self, target: Path, seed: int, p: float) -> None:
        """Write the files of a power loss at this instant: each dirty block and pending name is new with chance `p`.

        The seed also decides the block size (512 bytes or 4 KiB), and whether names change as on a journalling file
        system (a prefix of the changes is kept) or independently of each other.
        """
        rng = random.Random(f"{seed} {p}")
        block = rng.choice((SECTOR, 4096))
        names = dict(self.names)
        pending = list(self.pending)
        if rng.random() < 0.5:
            kept = pending[: sum(rng.random() < p for _ in pending)]
        else:
            kept = [one for one in pending if rng.random() < p]
        for one in kept:
            _apply(names, one)
        contents = {number: _torn(one, rng, p, block) for number, one in sorted(self.files.items())}
        self._write(target, names, contents)

    def kill(self, target: Path) -> SimulatedDisk:
        """Write the files as a killed process leaves them, on a disk with the same durable state."""
        self._write(target, self.live_names, {number: one.live for number, one in self.files.items()})
        return SimulatedDisk(target, after=self)

    def _write(self, target: Path, names: dict[str, int | None], contents: dict[int, bytes]) -> None:
        target.mkdir(parents=True)
        for name in sorted(names):
            folder = os.path.dirname(name)
            if folder and names.get(folder, 0) is not None:  # its directory is missing
                continue
            number = names[name]
            if number is None:
                if (target / folder).is_dir():
                    (target / name).mkdir()
                continue
            if (target / folder).is_dir():
                (target / name).write_bytes(contents[number])
                os.utime(target / name, ns=(self.times.get(name, 0), self.times.get(name, 0)))


def _apply(names: dict[str, int | None], one: _Pending) -> None:
    if one.taken is not None:
        names.pop(one.taken, None)
        for name in [name for name in names if name.startswith(one.taken + "/")]:
            del names[name]
    if one.given is not None:
        names[one.given] = one.file


def _torn(one: FrozenFile, rng: random.Random, p: float, block: int) -> bytes:
    if not one.dirty and len(one.durable) == len(one.live):
        return one.durable
    grown = len(one.live) != len(one.durable)
    size = len(one.live) if grown and rng.random() < p else len(one.durable)
    content = bytearray(one.durable[:size].ljust(size, b"\0"))
    chosen: dict[int, bool] = {}
    for sector in sorted(one.dirty):
        number = sector * SECTOR // block
        if number not in chosen:
            chosen[number] = rng.random() < p
        start = sector * SECTOR
        if chosen[number] and start < size:
            part = one.live[start : min(start + SECTOR, size)]
            content[start : start + len(part)] = part
    return bytes(content)


class SimulatedDisk(Layer):
    """The disk below `root`; its initial durable state is the files that exist, or that of `after`."""

    def __init__(self, root: Path, *, after: State | None = None) -> None:
        super().__init__()
        self.root = root
        self._lock = threading.RLock()
        self._files: dict[int, _File] = {}
        self._live: dict[str, int | None] = {}
        self._names: dict[str, int | None] = {}
        self._pending: list[_Pending] = []
        self._fds: dict[int, int] = {}
        self._made = 0
        self.on_call: Callable[[Call], None] = lambda _: None
        """Called with each changing call before it is made, under the disk's lock."""
        self.fail_sync: Callable[[Call], Flavour | None] = lambda _: None
        """Called before each sync; None lets it succeed."""
        if after is not None:
            self._resume(after)
        else:
            self._adopt()

    # -- at the begin

    def _adopt(self) -> None:
        if not self.root.is_dir():
            return
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            self._live[name] = None if path.is_dir() else self._new_file(name, path.read_bytes())
        self._names = dict(self._live)

    def _new_file(self, name: str, durable: bytes = b"") -> int:
        self._made += 1
        self._files[self._made] = _File(self._made, durable=durable, names={name})
        return self._made

    def _resume(self, state: State) -> None:
        self._names, self._live = dict(state.names), dict(state.live_names)
        self._pending = list(state.pending)
        for number, one in state.files.items():
            names = {name for name, file in state.live_names.items() if file == number}
            self._files[number] = _File(number, one.durable, set(one.dirty), names, one.live)
            self._made = max(self._made, number)

    # -- the calls

    def around(self, call: Call, do: Callable[[], Any]) -> Any:
        name = self._name(call.path)
        if name is None and not (call.kind in ("rename", "link") and self._name(Path(call.args[1])) is not None):
            return do()
        with self._lock:
            handler = getattr(self, f"_{call.kind}", None)
            if handler is None:
                return do()
            self.on_call(call)
            return handler(call, name, do)

    def _name(self, path: Path | None) -> str | None:
        if path is None or not path.is_relative_to(self.root):
            return None
        return str(path.relative_to(self.root))

    def _open_file(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        new = call.creates() and name not in self._live
        fd = do()
        if new:
            self._change(given=name, file=self._new_file(name))
        number = self._live.get(name)
        if number is not None:
            self._fds[fd] = number
            if call.args[1] & os.O_TRUNC:
                self._dirty(self._files[number], 0, len(self._files[number].durable))
        return fd

    def _close(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        self._fds.pop(call.args[0], None)
        return do()

    def _pwrite(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        written = do()
        self._touched(call.args[0], call.args[2], written)
        return written

    def _write(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        at = os.lseek(call.args[0], 0, os.SEEK_CUR)
        written = do()
        self._touched(call.args[0], at, written)
        return written

    def _touched(self, fd: int, at: int, size: int) -> None:
        number = self._fds.get(fd)
        if number is not None:
            self._dirty(self._files[number], at, at + size)

    def _dirty(self, file: _File, start: int, end: int) -> None:
        file.dirty.update(range(start // SECTOR, -(-end // SECTOR)))

    def _map_file(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        mapped = do()
        number = self._live.get(name)
        if number is not None and call.args[2] & 2:  # PROT_WRITE
            file = self._files[number]
            if file.seen is None:
                file.seen = self._content(file)
        return mapped

    def _fdatasync(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        number = self._fds.get(call.args[0])
        if number is None:
            return self._sync_folder(call, name)
        return self._sync(call, self._files[number])

    _fsync = _fdatasync

    def _msync(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        number = self._live.get(name)
        return None if number is None else self._sync(call, self._files[number])

    def _sync(self, call: Call, file: _File) -> None:
        self._look_at_map(file)
        flavour = self.fail_sync(call)
        live = self._content(file)
        if flavour is not None:
            sometimes.hit(sometimes.FAILED_SYNC)
            if flavour is Flavour.CLEAN_OLD:
                self._show_old(file, live)
            if flavour is not Flavour.DIRTY:
                file.dirty.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        durable = bytearray(file.durable[: len(live)].ljust(len(live), b"\0"))
        for sector in file.dirty:
            start = sector * SECTOR
            part = live[start : start + SECTOR]
            durable[start : start + len(part)] = part
        file.durable = bytes(durable)
        file.dirty.clear()

    def _show_old(self, file: _File, live: bytes) -> None:
        name = next(iter(file.names), None)
        if name is None:
            return
        with (self.root / name).open("r+b") as opened:
            for sector in file.dirty:
                start = sector * SECTOR
                size = min(SECTOR, len(live) - start)
                opened.seek(start)
                opened.write(file.durable[start : start + size].ljust(size, b"\0"))
        file.seen = None if file.seen is None else self._content(file)

    def _look_at_map(self, file: _File) -> None:
        if file.seen is None:
            return
        live, seen = self._content(file), file.seen
        if live != seen:
            for start in range(0, max(len(live), len(seen)), SECTOR):
                if live[start : start + SECTOR] != seen[start : start + SECTOR]:
                    file.dirty.add(start // SECTOR)
            file.seen = live

    def _sync_folder(self, call: Call, name: str) -> None:
        if self.fail_sync(call) is not None:
            sometimes.hit(sometimes.FAILED_SYNC)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        folder = "" if name == "." else name
        rest = []
        for one in self._pending:
            if folder in one.folders:
                _apply(self._names, one)
            else:
                rest.append(one)
        self._pending = rest

    def _change(self, *, given: str | None = None, file: int | None = None, taken: str | None = None) -> None:
        one = _Pending(given, file, taken, frozenset(os.path.dirname(name) for name in (given, taken) if name))
        self._pending.append(one)
        _apply(self._live, one)

    def _forget_name(self, name: str) -> None:
        number = self._live.get(name)
        if number is not None:
            file = self._files[number]
            if file.names == {name}:
                file.last = self._content(file)
            file.names.discard(name)

    def _rename(self, call: Call, name: str | None, do: Callable[[], Any]) -> Any:
        source, target = name, self._name(Path(call.args[1]))
        assert source is not None
        assert target is not None
        moved = {one: self._live[one] for one in self._live if one == source or one.startswith(source + "/")}
        replaced = target in self._live and self._live[target] is not None
        if replaced:
            self._forget_name(target)
        do()
        for one in [*moved]:
            number = moved[one]
            if number is not None:
                self._files[number].names.discard(one)
                self._files[number].names.add(target + one.removeprefix(source))
        self._change(given=target, file=moved[source], taken=source)
        for one in moved:
            if one != source:
                self._live[target + one.removeprefix(source)] = moved[one]
                self._names[target + one.removeprefix(source)] = moved[one]

    def _link(self, call: Call, name: str | None, do: Callable[[], Any]) -> Any:
        target = self._name(Path(call.args[1]))
        assert name is not None
        assert target is not None
        do()
        number = self._live[name]
        assert number is not None
        self._files[number].names.add(target)
        self._change(given=target, file=number)

    def _unlink(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        if name in self._live:
            self._forget_name(name)
        do()
        self._change(taken=name)

    def _mkdir(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        do()
        if name != ".":
            self._change(given=name)

    def _rmdir(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        do()
        self._change(taken=name)

    def _posix_fallocate(self, call: Call, name: str, do: Callable[[], Any]) -> Any:
        return do()

    _ftruncate = _posix_fallocate

    # -- looking

    def held(self) -> AbstractContextManager[object]:
        """Return the lock that all changing calls need; hold it to keep the disk unchanged."""
        return self._lock

    def _content(self, file: _File) -> bytes:
        for name in file.names:
            return (self.root / name).read_bytes()
        return file.last

    def freeze(self) -> State:
        """Return a snapshot of the disk."""
        with self._lock:
            files = {}
            wanted = {number for number in (*self._names.values(), *self._live.values()) if number is not None}
            wanted |= {one.file for one in self._pending if one.file is not None}
            for number in wanted:
                file = self._files[number]
                self._look_at_map(file)
                files[number] = FrozenFile(file.durable, self._content(file), frozenset(file.dirty))
            times = {
                name: (self.root / name).stat().st_mtime_ns for name, number in self._live.items() if number is not None
            }
            return State(dict(self._names), dict(self._live), tuple(self._pending), files, times)

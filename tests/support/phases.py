"""Phase locks: hold one actor at a named point and let another pass. No sleeps.

    with Phase(at_call("unlink", "commitlog")) as phase, ThreadPoolExecutor() as threads:
        cleaning = threads.submit(store.clean)
        phase.wait()              # retention is held before it deletes a log file
        ...                       # another actor runs meanwhile
        phase.go()
        cleaning.result()

Points are disk calls (`at_call`, or one of `POINTS` by its name). For a point without a disk call, `at_method` holds
the thread that enters, or leaves, a method of the product.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.disk_layer import Call, Layer

_TIMEOUT_S = 60.0


def at_call(kind: str, folder: str = "", *, target: bool = False) -> Callable[[Call], bool]:
    """Match calls of a kind on a file below a folder of that name; `target` checks a rename's new name."""

    def wanted(call: Call) -> bool:
        if call.kind != kind:
            return False
        where = str(call.args[1]) if target else str(call.path)
        return f"/{folder}/" in where if folder else True

    return wanted


POINTS: dict[str, Callable[[Call], bool]] = {
    "roll": at_call("rename", "commitlog", target=True),
    "commit-sync": at_call("fdatasync", "commitlog"),
    "retention": at_call("unlink", "commitlog"),
    "recovery-cut": at_call("pwrite", "commitlog"),
    "checkpoint": lambda call: call.kind == "rename" and str(call.args[1]).endswith("/checkpoint"),
    "allocate": at_call("posix_fallocate", "tmp"),
}


class _Gate:
    """Holds the `nth` thread that arrives (and no other) until `go` is called."""

    def __init__(self, nth: int) -> None:
        self._nth, self._seen = nth, 0
        self._lock = threading.Lock()
        self._arrived, self._open = threading.Event(), threading.Event()

    def pass_by(self) -> None:
        with self._lock:
            self._seen += 1
            held = self._seen == self._nth
        if held:
            self._arrived.set()
            if not self._open.wait(_TIMEOUT_S):
                raise TimeoutError(f"the held thread was not released within {_TIMEOUT_S:g} s")

    def wait(self) -> None:
        """Return once a thread is held at the point."""
        if not self._arrived.wait(_TIMEOUT_S):
            raise TimeoutError(f"no thread reached the point within {_TIMEOUT_S:g} s")

    def go(self) -> None:
        """Release the held thread."""
        self._open.set()


class Phase(Layer):
    """Holds the thread that makes the `nth` call for which `point` (a name of `POINTS`, or a predicate) is true."""

    def __init__(self, point: str | Callable[[Call], bool], nth: int = 1) -> None:
        super().__init__()
        self._point = POINTS[point] if isinstance(point, str) else point
        self._gate = _Gate(nth)

    def around(self, call: Call, do: Callable[[], Any]) -> Any:
        if self._point(call):
            self._gate.pass_by()
        return do()

    def wait(self) -> None:
        """Return once a thread is held at the point."""
        self._gate.wait()

    def go(self) -> None:
        """Release the held thread."""
        self._gate.go()

    def __exit__(self, *error: Any) -> None:
        self.go()
        super().__exit__(*error)


@contextmanager
def at_method(owner: type, name: str, nth: int = 1, *, leaving: bool = False) -> Iterator[_Gate]:
    """Hold the thread that makes the `nth` call of a method, before it begins or (`leaving`) before it returns."""
    original = getattr(owner, name)
    gate = _Gate(nth)

    def held(*args: Any, **more: Any) -> Any:
        if leaving:
            result = original(*args, **more)
            gate.pass_by()
            return result
        gate.pass_by()
        return original(*args, **more)

    setattr(owner, name, held)
    try:
        yield gate
    finally:
        gate.go()
        setattr(owner, name, original)

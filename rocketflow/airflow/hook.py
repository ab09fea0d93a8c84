"""The hook: runs `rocketflow` commands on the store of an Airflow connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseHook, get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from rocketflow.airflow.command import RunningCommand, child_environment
from rocketflow.airflow.connection import StoreConnection, StoreConnectionError
from rocketflow.airflow.outcome import FINDING_CODES, CommandEnd, Verdict, json_result
from rocketflow.airflow.positions import TopicPosition, position_of
from rocketflow.airflow.provider import CONNECTION_TYPE

_VERIFY_CODES = FINDING_CODES
_REBUILD_CODES = frozenset({3})
_CHECK_CODES = frozenset({1})


class RocketFlowStoreHook(BaseHook):
    """Runs `rocketflow` commands on the store of a connection.

    The exit code decides: for 0 and findings the result is returned; a store locked by another process (75) and a
    killed command raise AirflowException (Airflow retries the task), all others AirflowFailException (it does not).
    """

    conn_name_attr: ClassVar[str] = "conn_id"
    default_conn_name: ClassVar[str] = "rocketflow_default"
    conn_type: ClassVar[str] = CONNECTION_TYPE
    hook_name: ClassVar[str] = "RocketFlow store"

    def __init__(self, conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self._store: StoreConnection | None = None

    @property
    def store(self) -> StoreConnection:
        """The parsed connection; raises AirflowFailException if it is invalid."""
        if self._store is None:
            self._store = _checked(self.conn_id, self.get_connection(self.conn_id).extra_dejson)
        return self._store

    async def load(self) -> None:
        """Load the connection without blocking the event loop."""
        if self._store is None:
            self._store = _checked(self.conn_id, (await self.aget_connection(self.conn_id)).extra_dejson)

    def get_conn(self) -> StoreConnection:
        return self.store

    def test_connection(self) -> tuple[bool, str]:
        """Run `store info`, for the test button of Airflow's connection form; return (True if it succeeds, message)."""
        try:
            end = self.run(self.store.store_words("info"))
        except AirflowException as error:
            return False, str(error)
        result = end.result or {}
        return True, f"{self.store.path}: {result.get('state')}, {len(result.get('topics', ()))} topics"

    # -- commands

    def run(self, words: Sequence[str], accepted: Collection[int] = ()) -> CommandEnd:
        """Run `rocketflow WORDS` to its end. The exit codes `accepted` are no failure if a JSON result was printed."""
        command = [*self._command_words(), *words]
        self.log.info("store %s: %s", self._place, " ".join(command))
        running = RunningCommand(command, child_environment(os.environ, self.store.environment))
        with _killed_with_task(running):
            end = running.wait(lambda line: self.log.info("%s", line))
        return self._judged(end, accepted)

    def verify(self) -> dict[str, Any]:
        """Run `store verify`; return its result with the additional key `exitCode`."""
        end = self.run(self.store.store_words("verify"), _VERIFY_CODES)
        return {**self._result(end), "exitCode": end.code}

    def rebuild(self, selection: Sequence[str] = (), *, engine: str = "local", dry_run: bool = False) -> dict[str, Any]:
        """Run `store rebuild`. Damaged records are reported in the result and are no failure."""
        options = ["--engine", engine, *selection, *(["--dry-run"] if dry_run else [])]
        return self._result(self.run(self.store.store_words("rebuild", *options), _REBUILD_CODES))

    def clean(self, reserved_hours: int | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Run `store clean` (retention)."""
        options = [] if reserved_hours is None else ["--reserved-hours", str(reserved_hours)]
        return self._result(self.run(self.store.store_words("clean", *options, *(["--dry-run"] if dry_run else []))))

    def submit(self, job: str, options: Sequence[str] = ()) -> dict[str, Any]:
        """Run a job by `rocketflow submit`; return its last JSON line."""
        return self._result(self.run(self.store.job_words(job, *options)))

    def quality_check(self, topic: str, suite: str | None, begin_ms: int, end_ms: int) -> dict[str, Any]:
        """Run `quality check` on the messages stored in [begin_ms, end_ms)."""
        try:
            words = self.store.quality_words(topic, suite, begin_ms, end_ms)
        except StoreConnectionError as error:
            raise AirflowFailException(str(error)) from error
        return self._result(self.run(words, _CHECK_CODES))

    # -- positions, for sensors

    async def position(self, topic: str, group: str | None = None) -> TopicPosition:
        """Return the bounds of a topic's queues and the offsets of `group`. Reads the store without locking it."""
        info = await self._ask(["store", "info", self.store.path, *self._config_words(), "--json"])
        tables = []
        for file in info["consumerOffsets"] if group is not None else ():
            tables.append((await self._ask(["store", "dump", file])).get("content") or {})
        return position_of(info, topic, group, tables)

    async def _ask(self, words: Sequence[str]) -> dict[str, Any]:
        command = [*self._command_words(), *words]
        environment = child_environment(os.environ, self.store.environment)
        async with _short_process(command, environment) as process:
            out, error = await process.communicate()
        lines = error.decode("utf-8", "replace").strip().splitlines()
        code = process.returncode if process.returncode is not None else -1
        result = json_result(out.decode("utf-8", "replace").split("\n"))
        return self._result(self._judged(CommandEnd(tuple(command), code, result, lines[-1] if lines else ""), ()))

    # -- parts

    @property
    def _place(self) -> str:
        return f"{self.store.path} (connection {self.conn_id})"

    def _command_words(self) -> list[str]:
        try:
            return self.store.command_words()
        except StoreConnectionError as error:
            raise AirflowFailException(str(error)) from error

    def _config_words(self) -> list[str]:
        return ["--config", self.store.config] if self.store.config else []

    def _judged(self, end: CommandEnd, accepted: Collection[int]) -> CommandEnd:
        verdict = end.verdict(accepted)
        if verdict is Verdict.RETRY:
            raise AirflowException(end.describe(self._place))
        if verdict is Verdict.FAIL:
            raise AirflowFailException(end.describe(self._place))
        return end

    def _result(self, end: CommandEnd) -> dict[str, Any]:
        if end.result is None:
            raise AirflowFailException(f"{end.describe(self._place)}, but printed no JSON object")
        return end.result


def _checked(conn_id: str, extra: dict[str, Any]) -> StoreConnection:
    try:
        return StoreConnection.of(conn_id, extra)
    except StoreConnectionError as error:
        raise AirflowFailException(str(error)) from error


@contextlib.contextmanager
def _killed_with_task(running: RunningCommand) -> Iterator[None]:
    """Stop the command if Airflow kills the current task during this block."""
    try:
        task = get_current_context()["task"]
    except (RuntimeError, KeyError):  # outside a task, in a connection test
        yield
        return
    before = task.on_kill

    def stop() -> None:
        running.stop()
        before()

    task.on_kill = stop
    try:
        yield
    finally:
        task.on_kill = before


@contextlib.asynccontextmanager
async def _short_process(
    command: Sequence[str], environment: dict[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process that is killed at the end of the block; a trigger can be cancelled at any time."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

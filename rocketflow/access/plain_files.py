"""The files of RocketMQ 4's accounts: `conf/plain_acl.yml` and `conf/acl/**/*.yml`, read again when they change.

RocketMQ's source: acl/plain/PlainPermissionManager.java (load, getAllAclFiles), AclUtils.java (getYamlDataObject).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from rocketflow.access.addresses import Host
from rocketflow.access.permissions import Need, Row
from rocketflow.access.plain_rules import PlainRules, PlainRulesError, merged_rules, parse_rules
from rocketflow.access.signatures import SignatureCheck, check_signature
from rocketflow.aio.watched_files import WatchedFiles, call_often
from rocketflow.errors import UsageError
from rocketflow.remoting.command import Command

LOG: Final = logging.getLogger("rocketflow.access")

MAX_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 1_000
MAX_DEPTH: Final = 8

_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Reads texts only, no objects; the one in C is many times faster; some builds of PyYAML lack it."""

_NOT_RULES: Final = "tools.yml"
"""The credentials of mqadmin, which may lie beside the rules."""


class PlainFiles:
    """The rules in the files below a `conf` directory; only the first read raises UsageError."""

    def __init__(self, conf: Path) -> None:
        """Read the files. Blocks. Raises UsageError if there is none, or one cannot be used."""
        self._files = WatchedFiles(lambda: (conf / "plain_acl.yml", *_yaml_files(conf / "acl")))
        if not self._files.existing:
            raise UsageError(
                f"aclEnable=true: there is no {conf / 'plain_acl.yml'} and no .yml file in {conf / 'acl'}: write one, "
                "or set rocketmqHome to the directory that has conf/plain_acl.yml"
            )
        self._rules = _load(self._files.existing)

    def refusal(
        self, row: Row, command: Command, host: Host | None, check: SignatureCheck = check_signature
    ) -> str | None:
        """Return why a request is refused, None if it is allowed. Raises HeaderError and BodyError."""
        return self._rules.refusal(row, command, host, check)

    def account_of(self, command: Command, host: Host | None) -> str:
        """Return the access key of the account that sent a request, "" if none is proven."""
        return self._rules.account_of(command, host)

    def lacked(self, name: str, needs: Iterable[Need], host: Host | None) -> str | None:
        """Return why an account may not do at once what `needs` say, None if it may."""
        return self._rules.lacked(name, needs, host)

    async def watch(self) -> None:
        """Look at the files until cancelled."""
        await call_often(self.reload)

    def reload(self) -> None:
        """Read the files again if one has changed; the rules stay if one cannot be used. Blocks."""
        if not self._files.changed():
            return
        try:
            self._rules = _load(self._files.existing)
        except UsageError as error:
            LOG.error("the access rules that were loaded before stay in effect: %s", error)
        else:
            LOG.warning("the access rules have changed: %d accounts are loaded", len(self._rules.accounts))


def load_document(data: bytes) -> object:
    """Return a YAML document of lists, mappings and texts. Raises PlainRulesError, whose text has no part of the data.

    Aliases are refused: they would let a small file stand for a large one. So are many levels, whose time grows with
    the square of their number.
    """
    if len(data) > MAX_BYTES:
        raise PlainRulesError(f"it has {len(data):,} bytes, at most {MAX_BYTES:,} are allowed")
    try:
        text = data.decode()
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise PlainRulesError(f"{_line(event.start_mark)}aliases (*name) are not allowed")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise PlainRulesError(f"{_line(event.start_mark)}there are more than {MAX_DEPTH} levels")
        return yaml.load(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise PlainRulesError(f"{_line(error.problem_mark)}this is no YAML") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError, TypeError) as error:
        raise error if isinstance(error, PlainRulesError) else PlainRulesError("this is no YAML") from None


def _line(mark: Any) -> str:
    return "" if mark is None else f"line {mark.line + 1}: "


def _load(paths: list[Path]) -> PlainRules:
    if not paths or len(paths) > MAX_FILES:
        raise UsageError(f"there are {len(paths):,} files of access rules, 1 to {MAX_FILES:,} are allowed")
    parts = []
    for path in paths:
        try:
            with path.open("rb") as file:
                parts.append(parse_rules(load_document(file.read(MAX_BYTES + 1))))
        except OSError as error:
            raise UsageError(f"{path}: the access rules cannot be read ({error.strerror}): correct its mode") from None
        except PlainRulesError as error:
            raise UsageError(f"{path}: {error}: correct the file") from None
    try:
        return merged_rules(parts)
    except PlainRulesError as error:
        raise UsageError(f"{paths[0].parent}: {error}") from None


def _yaml_files(directory: Path) -> list[Path]:
    found = [
        Path(folder, name)
        for folder, _, names in os.walk(directory)
        for name in names
        if name.endswith((".yml", ".yaml")) and name != _NOT_RULES
    ]
    return sorted(found)

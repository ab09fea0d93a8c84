"""Profiles: address, account and TLS of a cluster by a name, in a file that only its owner may read.

The profile of `--profile` or ROCKETFLOW_PROFILE stands above the rest of the environment. The one that
`rocketflow profile use` chose stands below it: it counts where neither an option nor NAMESRV_ADDR names a NameServer.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from rocketflow.environment import ACCESS_KEY, CONFIG_HOME, NAMESRV_ADDR, PROFILE, SECRET_KEY, TLS, Variable
from rocketflow.errors import UsageError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OTHERS: Final = 0o077
_FIELDS: Final = {
    "namesrvAddr": "name_servers",
    "accessKey": "access_key",
    "secretKey": "secret_key",
    "tls": "tls",
    "tlsCa": "tls_ca",
    "tlsCert": "tls_cert",
    "tlsKey": "tls_key",
}
"""The attributes of a profile by their keys in the file."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Address, account and TLS of a cluster; files of TLS have absolute paths. The secret is not part of its text."""

    name_servers: str
    access_key: str = ""
    secret_key: str = field(repr=False, default="")
    tls: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""

    def environment(self) -> dict[Variable, str]:
        """Return the variables by which jobs find the same; "" for those that must not be set."""
        return {
            NAMESRV_ADDR: self.name_servers,
            ACCESS_KEY: self.access_key,
            SECRET_KEY: self.secret_key,
            TLS["tls.enable"]: "true" if self.tls else "",
            TLS["tls.client.trustCertPath"]: self.tls_ca,
            TLS["tls.client.certPath"]: self.tls_cert,
            TLS["tls.client.keyPath"]: self.tls_key,
            TLS["tls.client.authServer"]: "false" if self.tls and not self.tls_ca else "",
        }


@dataclass(slots=True)
class Profiles:
    """The profiles of a file, and the name of the one in use, "" for none."""

    current: str
    by_name: dict[str, Profile]

    def named(self, name: str) -> Profile:
        """Return a profile. Raises UsageError."""
        if name not in self.by_name:
            from rocketflow.process.nearest import did_you_mean

            raise UsageError(f"no profile {name!r}: {did_you_mean(name, self.by_name)}; see rocketflow profile list")
        return self.by_name[name]


def profiles_file() -> Path:
    """Return the place of the file."""
    return CONFIG_HOME.directory() / "rocketflow" / "profiles.json"


def load_profiles() -> Profiles:
    """Return all profiles; none if there is no file. Raises UsageError."""
    from rocketflow_store.spi.json_text import parse_json

    file = profiles_file()
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read()
    except FileNotFoundError:
        return Profiles("", {})
    except OSError as error:
        raise UsageError(f"profiles: {file} cannot be read: {error.strerror}") from None
    if mode & _OTHERS:
        raise UsageError(f"profiles: {file} has secrets, and others may open it: chmod 600 {file}")
    try:
        found = parse_json(text)
        return Profiles(str(found["current"]), {name: _profile(one) for name, one in found["profiles"].items()})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"profiles: {file} is no file of profiles ({error}): correct or delete it") from None


def _profile(values: dict[str, Any]) -> Profile:
    """Return a profile of the file. Raises TypeError and KeyError."""
    given = {_FIELDS[key]: value for key, value in values.items()}
    for one in fields(Profile):
        kind = bool if one.name == "tls" else str
        if not isinstance(given.get(one.name, kind()), kind):
            raise TypeError(f"{one.name} has a wrong type")
    return Profile(**given)


def save_profiles(profiles: Profiles) -> Path:
    """Replace the file; only its owner may read it. Raises UsageError."""
    import json
    import secrets

    file = profiles_file()
    rows = {
        name: {key: value for key, attribute in _FIELDS.items() if (value := getattr(one, attribute))}
        for name, one in sorted(profiles.by_name.items())
    }
    text = json.dumps({"current": profiles.current, "profiles": rows}, indent=2, ensure_ascii=False) + "\n"
    made = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        made.replace(file)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise UsageError(f"profiles: {file} cannot be written: {error.strerror}") from None
    return file


def check_name(name: str) -> None:
    """Raise UsageError for a text that is no name of a profile."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"profile {name!r}: a name has letters, digits, '.', '_' and '-', and begins with one of the first two"
        )


def named_profile(name: str = "") -> Profile | None:
    """Return the profile of `--profile`, or else of ROCKETFLOW_PROFILE; None without both. Raises UsageError."""
    name = name or PROFILE.text()
    return load_profiles().named(name) if name else None


def used_profile() -> Profile | None:
    """Return the profile chosen by `rocketflow profile use`, None without one. Raises UsageError."""
    found = load_profiles()
    return found.named(found.current) if found.current else None


def export_profile() -> None:
    """Give jobs, by the environment, what ROCKETFLOW_PROFILE names. Raises UsageError."""
    found = named_profile()
    for variable, text in () if found is None else found.environment().items():
        variable.put(text)

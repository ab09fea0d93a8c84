"""Options of every command that is a client of NameServers and brokers: addresses, account, TLS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rocketflow.cli.shared.profiles import Profile, named_profile, used_profile
from rocketflow.environment import ACCESS_KEY, NAMESRV_ADDR, PROFILE, SECRET_KEY
from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls
    from rocketflow.client.options import ClientOptions
    from rocketflow.remoting.signature import Credentials

_FORM: Final = "two lines are expected, accessKey: NAME and secretKey: SECRET"

NameServersOption = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrvAddr",
        metavar="ADDR",
        help=f"NameServers: host:port;host:port (else {NAMESRV_ADDR.key}, or those of the profile).",
    ),
]
ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile", metavar="NAME", help=f"Address, account and TLS: see rocketflow profile (else {PROFILE.key})."
    ),
]
CredentialsOption = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help=f"Account: lines accessKey: NAME and secretKey: SECRET (else {ACCESS_KEY.key} and {SECRET_KEY.key}).",
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Use TLS; the servers are not checked without --tls-ca.")]
TlsTrustOption = Annotated[
    str, typer.Option("--tls-ca", metavar="FILE", help="Use TLS and trust certificates signed by these (PEM).")
]
TlsCertOption = Annotated[str, typer.Option("--tls-cert", metavar="FILE", help="The client's certificate (PEM).")]
TlsKeyOption = Annotated[str, typer.Option("--tls-key", metavar="FILE", help="The client's private key (PEM).")]


def client_options(
    name_servers: str,
    credentials: Path | None,
    *,
    profile: str | Profile = "",
    tls: bool,
    tls_ca: str,
    tls_cert: str,
    tls_key: str,
) -> ClientOptions:
    """Return the options of a client: what is not given comes from the profile. Raises UsageError."""
    from rocketflow.client.options import ClientOptions
    from rocketflow.remoting.signature import Credentials

    named = profile if isinstance(profile, Profile) else named_profile(profile)
    variable = NAMESRV_ADDR.text()
    found = named if named is not None or _is_given(name_servers) or _is_given(variable) else used_profile()
    if not _is_given(name_servers):
        name_servers = variable if found is None else found.name_servers
    if not _is_given(name_servers):
        raise UsageError(
            f"no NameServer is given: add -n host:port, or set {NAMESRV_ADDR.key} or a profile "
            "(rocketflow profile set NAME -n host:port)"
        )
    account = account_of(credentials) if credentials is not None else None
    if account is None and named is None:
        account = _account_of_environment()
    if found is not None:
        if account is None and found.access_key:
            account = Credentials(found.access_key, found.secret_key)
        if not (tls or tls_ca or tls_cert or tls_key):
            tls, tls_ca, tls_cert, tls_key = found.tls, found.tls_ca, found.tls_cert, found.tls_key
    wants_tls = tls or bool(tls_ca or tls_cert or tls_key)
    return ClientOptions(
        name_servers=name_servers,
        credentials=account,
        tls=_tls(tls_ca, tls_cert, tls_key) if wants_tls else None,
    )


def _is_given(name_servers: str) -> bool:
    return bool(name_servers.strip(" ;,"))


def account_of(file: Path) -> Credentials:
    """Return the account of a file. Raises UsageError."""
    from rocketflow.remoting.signature import Credentials

    found = _read(file)
    if not found.get("accessKey") or not found.get("secretKey"):
        raise UsageError(f"{file} is no file of an account: {_FORM}")
    return Credentials(found["accessKey"], found["secretKey"])


def _account_of_environment() -> Credentials | None:
    from rocketflow.remoting.signature import Credentials

    name, secret = ACCESS_KEY.text(), SECRET_KEY.text()
    if bool(name) != bool(secret):
        missing = (SECRET_KEY if name else ACCESS_KEY).key
        raise UsageError(f"{missing} is missing: an account has a name and a secret")
    return Credentials(name, secret) if name else None


def _read(file: Path) -> dict[str, str]:
    """Return the lines `KEY: VALUE` of a file, as RocketMQ's conf/tools.yml has them."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read ({error}): {_FORM}") from None
    pairs = (line.partition(":") for line in lines if not line.lstrip().startswith("#"))
    return {key.strip(): value.strip().strip("'\"") for key, mark, value in pairs if mark}


def _tls(trusted: str, certificate: str, key: str) -> Tls:
    from rocketflow.aio.tls import Tls, TlsError, TlsFiles, client_context

    files = TlsFiles("tls.client", certificate, key, "", trusted)
    try:
        return Tls(lambda: client_context(files, verify=bool(trusted)), files.paths)
    except TlsError as error:
        raise UsageError(str(error)) from None

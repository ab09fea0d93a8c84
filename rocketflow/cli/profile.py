"""`rocketflow profile`: address, account and TLS of clusters, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from rocketflow.cli.shared.client_options import (
    TlsCertOption,
    TlsKeyOption,
    TlsOption,
    TlsTrustOption,
    account_of,
    client_options,
)
from rocketflow.cli.shared.parameters import JsonOption, emit
from rocketflow.cli.shared.profiles import Profile, check_name, load_profiles, save_profiles
from rocketflow.cli.shared.tables import print_table
from rocketflow.process.printable import printable

profile_app = typer.Typer(
    help="Address, account and TLS of clusters by name, for commands that reach one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The profile.")]
_COLUMNS = ("name", "namesrvAddr", "account", "tls", "used")


FIELDS: Final[dict[str, dict[str, str]]] = {
    "profile list": {
        "name": "name",
        "namesrvAddr": "addresses of the NameServers",
        "account": "name of the account, null for none",
        "tls": "whether TLS is used",
        "used": "whether it is used where a command names none",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@profile_app.command("list")
def list_profiles(as_json: JsonOption = False) -> None:
    """List all profiles, without secrets. Example: rocketflow profile list"""
    found = load_profiles()
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "namesrvAddr": one.name_servers,
            "account": one.access_key or None,
            "tls": one.tls,
            "used": name == found.current,
        }
        for name, one in sorted(found.by_name.items())
    ]
    if as_json:
        for row in rows:
            emit(row)
    elif rows:
        marks = {True: "yes", False: "no"}
        print_table(_COLUMNS, ([marks.get(row[name], row[name]) for name in _COLUMNS] for row in rows))
    else:
        print("no profiles: rocketflow profile set NAME -n HOST:PORT")


@profile_app.command("use")
def use_profile(name: _NameArgument) -> None:
    """Use a profile where a command, or its environment, names no NameServer. Example: rocketflow profile use test"""
    found = load_profiles()
    address = found.named(name).name_servers
    found.current = name
    save_profiles(found)
    print(f"{printable(name)}: {printable(address)}")


@profile_app.command("set")
def set_profile(
    name: _NameArgument,
    name_servers: Annotated[
        str, typer.Option("-n", "--namesrvAddr", metavar="ADDR", help="NameServers: host:port;host:port.")
    ],
    credentials: Annotated[
        Path | None,
        typer.Option("--credentials", metavar="FILE", help="Account: lines accessKey: NAME and secretKey: SECRET."),
    ] = None,
    tls: TlsOption = False,
    tls_ca: TlsTrustOption = "",
    tls_cert: TlsCertOption = "",
    tls_key: TlsKeyOption = "",
) -> None:
    """Make a profile, or replace it; the first one is used from then on.

    Example: rocketflow profile set test -n 127.0.0.1:9876 --credentials account.yml --tls-ca ca.pem

    Account and secret are copied into profiles.json in ~/.config/rocketflow (or below XDG_CONFIG_HOME), which only its
    owner may read; files of TLS are named there.
    """
    check_name(name)
    account = None if credentials is None else account_of(credentials)
    ca, cert, key = (str(Path(one).absolute()) if one else "" for one in (tls_ca, tls_cert, tls_key))
    made = Profile(
        name_servers,
        "" if account is None else account.access_key,
        "" if account is None else account.secret_key,
        tls=tls or bool(ca or cert or key),
        tls_ca=ca,
        tls_cert=cert,
        tls_key=key,
    )
    client_options("", None, profile=made, tls=False, tls_ca="", tls_cert="", tls_key="").addresses()
    found = load_profiles()
    found.by_name[name] = made
    found.current = found.current or name
    print(f"{name}: {name_servers}, in {save_profiles(found)}")


@profile_app.command("delete")
def delete_profile(name: _NameArgument) -> None:
    """Delete a profile and its secret. Example: rocketflow profile delete test"""
    found = load_profiles()
    found.named(name)
    del found.by_name[name]
    found.current = "" if found.current == name else found.current
    save_profiles(found)
    print(f"{printable(name)}: deleted")

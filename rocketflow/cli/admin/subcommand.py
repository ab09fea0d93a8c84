"""Makes a command of a coroutine function, and gives it the options that every subcommand has."""

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from rocketflow.cli.admin.output import Output
from rocketflow.cli.shared.client_options import (
    CredentialsOption,
    NameServersOption,
    ProfileOption,
    TlsCertOption,
    TlsKeyOption,
    TlsOption,
    TlsTrustOption,
    client_options,
)

Work = TypeVar("Work", bound=Callable[..., Awaitable[None]])

admin_app = typer.Typer(
    name="admin",
    help="Topics, groups, messages and brokers of a cluster: mqadmin's subcommands and flags, without Java.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _common(
    name_servers: NameServersOption = "",
    profile: ProfileOption = "",
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of mqadmin's text.")] = False,
    credentials: CredentialsOption = None,
    tls: TlsOption = False,
    tls_ca: TlsTrustOption = "",
    tls_cert: TlsCertOption = "",
    tls_key: TlsKeyOption = "",
) -> None:
    """Have the options of every subcommand."""


_COMMON: Final = tuple(inspect.signature(_common).parameters.values())


def subcommand(name: str) -> Callable[[Work], Work]:
    """Add a coroutine function as a subcommand.

    It is called with an AdminClient, an Output and its options, which are its further parameters.
    """

    def add(work: Work) -> Work:
        own = list(inspect.signature(work).parameters.values())[2:]

        def command(**given: Any) -> None:
            _run(work, {one.name: given.pop(one.name) for one in _COMMON}, given)

        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *_COMMON)]
        command.__doc__ = work.__doc__
        command.__name__ = work.__name__
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        admin_app.command(name)(command)
        return work

    return add


def _run(work: Callable[..., Awaitable[None]], common: dict[str, Any], own: dict[str, Any]) -> None:
    from rocketflow.cli.shared.client_run import run_client
    from rocketflow.client.admin.admin_client import AdminClient

    output = Output(as_json=common.pop("as_json"))
    name_servers: str = common.pop("name_servers")
    credentials: Path | None = common.pop("credentials")
    options = client_options(name_servers, credentials, **common)

    async def main() -> None:
        async with AdminClient(options) as admin:
            await work(admin, output, **own)

    run_client(main())

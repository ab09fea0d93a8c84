"""The tree of commands, and the conversion of exceptions to exit codes."""

from __future__ import annotations

import enum
import os
import sys
from functools import cache
from typing import Annotated, Any, Final

import typer

from rocketflow import environment
from rocketflow.cli.late_commands import LateCommands
from rocketflow.cli.shared import failures, profiles
from rocketflow.process import logging_setup
from rocketflow.process.printable import printable

_SPARK_ARGUMENTS = "@spark-arguments@"
_COMPLETE = "_ROCKETFLOW_COMPLETE"
_LABEL_WIDTH = 36
_JOBS = ("submit", "bridge", "quality", "checkpoint")
"""Commands that take the profile from the environment."""


FIELDS: Final[dict[str, dict[str, str]]] = {
    "doctor": {
        "ok": "whether every check passed",
        "checks": "the checks",
        "checks.name": "what was checked",
        "checks.ok": "whether it passed",
        "checks.detail": "what was found",
        "checks.remedy": "what to do; empty if the check passed",
    },
    "explain": {
        "name": "name of the entry",
        "kind": "kind of the entry: setting, option of a producer, command, event code, field of JSON output and so on",
        "about": "its description",
        "facts": "further facts, an object of strings: default, values, what to do, ...",
    },
    "init": {
        "directory": "the directory",
        "files": "names of the files in it",
    },
    "version": {
        "rocketflow": "version of RocketFlow",
        "python": "version of Python",
        "pyspark": "version of PySpark",
        "pyarrow": "version of PyArrow",
        "numpy": "version of NumPy",
        "isal": "version of isal",
        "kernel": "compiled, or pure Python with the reason",
        "java": "major version of the Java that Spark would use: JAVA_HOME's or the one on PATH; null if there is none",
        "packages": "versions of other packages that RocketFlow uses, by name; null for those that are not installed",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


class Shell(enum.Enum):
    """Shells for which `completion` prints a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


app = typer.Typer(
    name="rocketflow",
    cls=LateCommands,
    help="Topics of Apache RocketMQ in Python, with Spark Structured Streaming or plain clients.",
    no_args_is_help=True,
    add_completion=False,  # the command `completion` prints the script of any shell, not only of the present one
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from rocketflow import __version__

        print(f"rocketflow {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    logging: Annotated[
        str | None,
        typer.Option("--logging", metavar="FILE", help="Targets of log lines: a JSON file like conf/logging.json."),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="The cluster to reach: see rocketflow profile.")
    ] = "",
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    if debug:
        environment.DEBUG.put("1")
    if logging:
        environment.LOGGING.put(logging)
    logging_setup.set_up_logging()
    if profile:
        environment.PROFILE.put(profile)
    if context.invoked_subcommand in _JOBS:
        profiles.export_profile()


@app.command()
def version(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Print the versions of RocketFlow and of the software that it uses. Example: rocketflow version --json"""
    import json

    from rocketflow.cli.doctor.doctor import versions

    found = versions()
    if as_json:
        print(json.dumps(found))
        return
    packages = found.pop("packages")
    for name, value in {**found, **packages}.items():
        print(f"{name:<20} {value or 'not installed'}")


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell to complete in.")],
) -> None:
    """Print the script that completes rocketflow's commands and options.

    Example: rocketflow completion bash >> ~/.bashrc
    """
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="rocketflow", complete_var=_COMPLETE, shell=shell.value)
    print(script)


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Check Java, Spark, ports, disk and limits. Example: rocketflow doctor"""
    import json

    from rocketflow.cli.doctor.doctor import examine

    checks = examine()
    if as_json:
        print(json.dumps({"ok": all(one.ok for one in checks), "checks": [one.as_dict() for one in checks]}))
    else:
        for one in checks:
            print(f"{'ok  ' if one.ok else 'FAIL'}  {one.name:<14} {one.detail}")
            if one.remedy:
                print(f"{'':<20} {one.remedy}")
    if not all(one.ok for one in checks):
        raise typer.Exit(failures.EXIT_FINDINGS)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def submit(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="A job, e.g. jobs/stream.py or stream.")],
) -> None:
    """Run a job by spark-submit with the settings measured best; extra Spark options go after `--`.

    `rocketflow submit JOB --help` prints the options of a job.

    Example: rocketflow submit stream --source /data/s --subscribe t --sink /data/s --topic u --checkpoint /data/c
    """
    from rocketflow.spark.submit import job_names, submit_job

    if job in ("--help", "-h"):
        print(context.get_help())
        print(f"\nJobs: {', '.join(job_names())}")
        raise typer.Exit
    arguments = ["--" if one == _SPARK_ARGUMENTS else one for one in context.args]
    raise typer.Exit(submit_job(job, arguments))


@app.command()
def demo(
    store: Annotated[str | None, typer.Option("--store", help="Copy a topic of this RocketMQ store instead.")] = None,
    directory: Annotated[
        str | None,
        typer.Option(
            "--dir",
            help="Directory for the demo's store (default: rocketflow-demo-UID in the temporary directory); "
            "what an earlier demo made in it is deleted, other files stay.",
        ),
    ] = None,
    network: Annotated[
        bool, typer.Option("--network", help="Send the flights to a NameServer and broker that run meanwhile.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Append 336,776 real flights, stream them through SQL, prove the result. Example: rocketflow demo"""
    from rocketflow.demo.demo import run_demo

    raise typer.Exit(run_demo(store=store, directory=directory, as_json=as_json, network=network))


@app.command()
def init(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A new or an empty directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Write a small project that runs: a Spark job, settings, a suite of checks, an Airflow DAG, a Makefile.

    Example: rocketflow init orders
    """
    import json
    from pathlib import Path

    from rocketflow.starter.starter import write_project

    files = write_project(Path(directory))
    if as_json:
        print(json.dumps({"directory": directory, "files": files}))
    else:
        print("\n".join(f"{directory}/{name}" for name in files))
        print(f"next: cd {directory} && make data run check show; README.md says what it does")


@app.command(context_settings={"ignore_unknown_options": True})
def explain(
    name: Annotated[
        str,
        typer.Argument(help="A setting, an option, an argument, a command, a field, an event code or an exit code."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of text.")] = False,
) -> None:
    """Print the entry of a name in the reference. Example: rocketflow explain flushDiskType"""
    import json

    from rocketflow.cli.reference.entries import all_entries, find_entries

    for number, one in enumerate(find_entries(name, all_entries(command_tree()))):
        if as_json:
            print(json.dumps(one.as_dict()))
            continue
        print(f"{'' if number == 0 else chr(10)}{one.name} ({one.kind})")
        print(f"  {one.about}")
        width = min(max((len(label) for label, _ in one.facts), default=0), _LABEL_WIDTH)
        for label, text in one.facts:
            print(f"  {label:<{width}}  {text}")


@cache
def command_tree() -> Any:
    """Return the tree of commands, built at the first call: building it takes longer than many a command does."""
    return typer.main.get_command(app)


def run(arguments: list[str]) -> int:
    """Run one command line; return the exit code."""
    debug = "--debug" in arguments or bool(environment.DEBUG.text())
    arguments = _without_debug(arguments)
    if arguments[:1] == ["submit"]:  # the parser would swallow the separator
        arguments = [_SPARK_ARGUMENTS if one == "--" else one for one in arguments]
    if _COMPLETE in os.environ:  # a shell asks for completions, by the script that `completion` printed
        from typer._completion_classes import completion_init

        completion_init()
    try:
        result = command_tree()(args=arguments, prog_name="rocketflow", standalone_mode=False)
        return int(result) if isinstance(result, int) else 0
    except SystemExit:
        if type(sys.stdout).__name__ != "PacifyFlushWrapper":
            raise
        return 0  # the parser's exit after the reader of stdout has closed it: no message
    except (Exception, KeyboardInterrupt) as error:
        code = _usage_code(error)
        if code is not None:
            return code
        if debug:
            raise
        return failures.report(error, arguments[0] if arguments else "")


def _without_debug(arguments: list[str]) -> list[str]:
    """Remove `--debug`, which may be anywhere before a `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [one for one in arguments[:end] if one != "--debug"] + arguments[end:]


def _usage_code(error: BaseException) -> int | None:
    """Return the exit code of the command parser's own exceptions, or None for others."""
    if type(error).__name__ == "Abort":
        return failures.EXIT_INTERRUPTED
    if type(error).__name__ == "Exit":
        return int(getattr(error, "exit_code", 0))
    if type(error).__name__ == "NoArgsIsHelpError":
        print(getattr(error, "message", error), file=sys.stderr)
        return 2
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        print(f"error: {printable(error.format_message()).replace('Value error, ', '')}", file=sys.stderr)
        return int(error.exit_code)
    return None

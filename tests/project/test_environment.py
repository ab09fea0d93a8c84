"""Settings come from the environment in one place each: the loader of keys, and `rocketflow.environment`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from rocketflow.environment import VARIABLES
from tests.project.parsed_code import nodes

ROOT: Final = Path(__file__).parents[2]
READERS: Final = {
    "rocketflow/environment.py": "the rows of variables",
    "store/rocketflow_store/settings/loader.py": "the keys of files, as variables",
    "store/rocketflow_store/kernel/loading.py": "the switches of the kernel, when it is loaded",
}
OTHER_USES: Final = {
    "rocketflow/airflow/connection.py": "searches PATH for a command",
    "rocketflow/airflow/hook.py": "starts a process with a part of it",
    "rocketflow/cli/app.py": "is asked by a shell for completions",
    "rocketflow/cli/network.py": "hands it to the loaders of servers",
    "rocketflow/process/readiness.py": "starts a process with it",
    "rocketflow/process/stderr.py": "a mark between a job and the command that submitted it",
    "rocketflow/quality/check/suite_trial.py": "sets a variable of Great Expectations",
    "rocketflow/quality/jobs/session.py": "sets a variable of Great Expectations",
    "rocketflow/quality/results/data_docs.py": "sets a variable of Great Expectations",
    "rocketflow/spark/session.py": "sets and reads Spark's own variables",
    "rocketflow/spark/shared/plain_errors.py": "sets a variable of Spark's workers",
    "rocketflow/spark/submit.py": "starts a process with it",
    "rocketflow/testing/__main__.py": "starts a process with it",
    "rocketflow/testing/server_main.py": "hands it to the loaders of servers",
    "store/rocketflow_store/files/remote.py": "sets variables of the S3 client",
}


def uses_environment(path: Path) -> bool:
    for node in nodes(path.read_text("utf-8")):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not {one.name for one in node.names} & {"environ", "environb", "getenv"}, path
    return False


def test_modules_that_use_the_environment_are_named_with_their_reason() -> None:
    files = [path for folder in ("rocketflow", "store/rocketflow_store") for path in (ROOT / folder).rglob("*.py")]
    assert {str(path.relative_to(ROOT)) for path in files if uses_environment(path)} == {*READERS, *OTHER_USES}


def test_a_variable_of_users_is_named_in_one_module() -> None:
    written = [path.read_text("utf-8") for path in (ROOT / "rocketflow").rglob("*.py")]
    for one in VARIABLES:
        assert one.about
        assert sum(f'"{one.key}"' in text for text in written) <= 1, one.key

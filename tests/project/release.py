"""Make a release in `dist`: `python -m tests.project.release [DIRECTORY]`.

Source archive and wheel are built from the last commit and are the same bytes on each machine. `SHA256SUMS` lists them.
`sbom.json` (CycloneDX) lists what the wheel's extra `spark` brings, with the versions of `requirements.lock`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from tests.support.golden import extract

ROOT: Final = Path(__file__).parents[2]


def build(commit: str, target: Path) -> list[Path]:
    """Write source archive and wheel of `commit` to `target`; return their paths."""
    date = subprocess.run(["git", "log", "-1", "--format=%ct", commit], cwd=ROOT, capture_output=True, check=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": date.stdout.decode().strip()}
    with tempfile.TemporaryDirectory() as work:
        archive, tree = Path(work) / "commit.tar", Path(work) / "tree"
        subprocess.run(["git", "archive", "--output", str(archive), commit], cwd=ROOT, check=True)
        extract(archive, tree)
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(tree)]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return sorted(target.glob("rocketflow-*"))


def install(wheel: Path, environment: Path, *options: str, extra: str = "") -> Path:
    """Make a virtual environment with nothing but `wheel`, with an extra, and what it needs; return its Python."""
    venv.create(environment)
    python = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*command, "install", *options, f"{wheel}{extra}"], check=True)
    return python


def write_sbom(python: Path, target: Path) -> None:
    """Write the packages that `python` can import to `target`, as CycloneDX in JSON."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-file"]
    subprocess.run([*command, str(target), str(python)], check=True)


def write_sums(files: list[Path], target: Path) -> None:
    """Write the SHA-256 of `files` to `target`, as `sha256sum --check` reads them."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    target.write_text("".join(lines), "utf-8")


def main() -> None:
    """Make the release and print its files."""
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("rocketflow-*"):
        old.unlink()
    packages = build("HEAD", target)
    with tempfile.TemporaryDirectory() as temporary:
        pins = Path(temporary) / "pins.txt"
        lock = (ROOT / "requirements.lock").read_text("utf-8")
        pins.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.M)), "utf-8")
        python = install(packages[0], Path(temporary) / "environment", "--constraint", str(pins), extra="[spark]")
        write_sbom(python, target / "sbom.json")
    files = [*packages, target / "sbom.json"]
    write_sums(files, target / "SHA256SUMS")
    print("\n".join(map(str, [*files, target / "SHA256SUMS"])))


if __name__ == "__main__":
    main()

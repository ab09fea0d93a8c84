"""Write the golden files of the remoting protocol with RocketMQ's classes: `python -m tests.apache.remoting_golden`."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.apache.judge import HERE
from tests.support.golden_remoting import HOME, write
from tests.support.java_programs import FLAGS
from tests.support.maven import compile_java, fetch_jars, java_and_javac
from tests.support.odd_inputs import rows

PROGRAMS: Final = {
    "5.3.3": ("RemotingHeaders", "RemotingBodies", "RequestPermissions", "OddInputs"),
    "4.9.7": ("RemotingHeaders", "RemotingBodies", "OddInputs"),
    "5.5.0": ("OddInputs",),
}
PACKAGES_OF_4: Final = (
    (r"remoting\.protocol\.(body|heartbeat|route)\.", r"common.protocol.\1."),
    (r"remoting\.protocol\.filter\.", "common.filter."),
    (r"remoting\.protocol\.DataVersion", "common.DataVersion"),
    (r"common\.message\.MessageExtBrokerInner", "store.MessageExtBrokerInner"),
)
"""Packages of 5.x and of 4.x in imports."""
SECONDS: Final = 300


def generated(version: str) -> dict[str, str]:
    """Return the text by name of every golden file of the version; raise JarsNotFetchedError."""
    java = java_and_javac()[0]
    modules = [f"org.apache.rocketmq:rocketmq-{part}:{version}" for part in ("store", "broker", "namesrv")]
    lib = fetch_jars(f"apache/{version}-broker", modules)
    package = "org.apache.rocketmq." + ("common" if version.startswith("4.") else "remoting") + ".protocol"
    with tempfile.TemporaryDirectory() as work:
        target = Path(work, "golden")
        target.mkdir()
        odd = Path(work, "odd_inputs")
        odd.write_text("".join(f"{row.line}\n" for row in rows()))
        for program in PROGRAMS[version]:
            source = HERE / "java" / f"{program}.java"
            classes = compile_java(source, _text_for(version, source.read_text("utf-8")), lib)
            command = [
                *(java, *FLAGS, "-Xmx1g", f"-Duser.home={work}", "-Duser.timezone=UTC", "-cp", f"{classes}:{lib}/*"),
                *(program, str(target), package, str(odd)),
            ]
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=SECONDS, check=False)
            assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
        return {path.stem: path.read_text("utf-8") for path in sorted(target.glob("*.jsonl"))}


def _text_for(version: str, text: str) -> str:
    """Return a Java source for the version: RocketMQ 4.x has other packages and fewer classes."""
    if version.startswith("4."):
        text = "\n".join(line for line in text.split("\n") if not line.endswith("// 5.x"))
        for pattern, replacement in PACKAGES_OF_4:
            text = re.sub(rf"(?<=^import org\.apache\.rocketmq\.){pattern}", replacement, text, flags=re.MULTILINE)
    return text


def main() -> None:
    """Replace the golden files of all versions."""
    for version in PROGRAMS:
        for name, text in generated(version).items():
            write(version, name, text)
            print(HOME / version / name, len(text))


if __name__ == "__main__":
    main()

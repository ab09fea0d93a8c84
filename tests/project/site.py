"""Build the documentation site from the pages beside the code: `python -m tests.project.site [DIRECTORY]`.

The pages are copied to `build/docs-source`, with a sidebar, and made into HTML by Sphinx. A link between pages whose
target or anchor is missing fails the build. Ends with 1 if there is a warning.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from rocketflow import __version__

ROOT: Final = Path(__file__).parents[2]
BUILD: Final = ROOT / "build"
FRONT: Final = "README.md"
_STORE: Final = "store/rocketflow_store"
_REFERENCE: Final = "rocketflow/cli/reference"
SECTIONS: Final = {
    "Use": [
        "rocketflow/spark/README.md",
        "jobs/examples/README.md",
        "rocketflow/starter/project/README.md",
        "rocketflow/client/README.md",
        "store/README.md",
        "rocketflow/testing/README.md",
        "rocketflow/quality/README.md",
        "rocketflow/kafka/README.md",
        "airflow_dags/README.md",
        "rocketflow/airflow/README.md",
    ],
    "Operate": ["OPERATIONS.md", "ROCKETMQ.md", "GLOSSARY.md", "CHANGELOG.md"],
    "Reference": [
        *(f"{_REFERENCE}/{name}.md" for name in ("settings", "servers", "clients", "options", "arguments")),
        *(f"{_REFERENCE}/{name}.md" for name in ("commands", "events", "output", "requests")),
        "rocketflow/spark/REFERENCE.md",
    ],
    "Inside": [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        *(f"{_STORE}/{name}/README.md" for name in ("append", "commits", "delivery", "delivery/delay")),
        *(f"{_STORE}/{name}/README.md" for name in ("delivery/timer", "engine", "kernel", "metadata")),
        f"{_STORE}/metadata/native/FORMAT.md",
        *(f"{_STORE}/{name}/README.md" for name in ("reading", "rebuild", "recovery")),
    ],
    "Evidence": [
        "tests/README.md",
        "tests/apache/COMPATIBILITY.md",
        "tests/apache/MQADMIN.md",
        *(
            f"tests/{name}/README.md"
            for name in ("reliability", "apache", "bench", "fuzz", "planted", "golden", "golden/remoting")
        ),
    ],
}
"""Headings of the sidebar with their pages, after the front page."""
PAGES: Final = [FRONT, *(page for pages in SECTIONS.values() for page in pages)]
_LINK: Final = re.compile(r"(?<!!)\[([^]\n]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_PICTURE: Final = re.compile(r"!\[[^]]*\]\(([^)\s]+)\)")
SETTINGS: Final = {
    "project": "RocketFlow",
    "html_title": f"RocketFlow {__version__}",
    "html_theme": "furo",
    "html_copy_source": 0,
    "html_show_copyright": 0,
    "highlight_language": "text",
    "extensions": "myst_parser",
    "myst_heading_anchors": 4,
}


def tracked_pages() -> list[str]:
    """Return the paths of all Markdown files in git, except the origins of golden stores."""
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.splitlines() if not path.endswith("/ORIGIN.md")]


def write_source(source: Path) -> None:
    """Copy the pages and their pictures to `source`, under the paths they have in the repository."""
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        folder = (ROOT / page).parent
        for picture in _PICTURE.findall(text):
            path = (folder / picture).resolve().relative_to(ROOT)
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, source / path)
        target = source / _place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_LINK.sub(lambda found, page=page: _link(page, found), text), "utf-8")
    with (source / "index.md").open("a", encoding="utf-8") as front:
        for heading, pages in SECTIONS.items():
            front.write("\n".join(["", "```{toctree}", ":hidden:", f":caption: {heading}", *pages, "```", ""]))


def _place(page: str) -> str:
    return "index.md" if page == FRONT else page


def _link(page: str, found: re.Match[str]) -> str:
    """Return a link of `page` as the site has it: to a page, or plain code if the target is another file."""
    text, target, anchor = found.groups(default="")
    path = os.path.normpath(os.path.join(os.path.dirname(page), target))
    if path in PAGES:
        return f"[{text}]({os.path.relpath(_place(path), os.path.dirname(page) or '.')}{anchor})"
    return f"{text} (`{path}`)" if (ROOT / path).exists() else found[0]


def build(source: Path, site: Path) -> list[str]:
    """Write the pages of `source` as HTML to `site`; return the warnings."""
    defines = [f"--define={name}={value}" for name, value in SETTINGS.items()]
    plain = ["--quiet", "--no-color", "--isolated", "--fresh-env", "--write-all", *defines]
    doctrees = site.with_name(f"{site.name}-doctrees")
    command = [sys.executable, "-m", "sphinx", *plain, f"--doctree-dir={doctrees}", source, site]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.splitlines()


def main() -> int:
    """Build the site; return 1 if there are warnings."""
    site = Path(sys.argv[1]) if sys.argv[1:] else BUILD / "docs"
    source = BUILD / "docs-source"
    shutil.rmtree(source, ignore_errors=True)
    write_source(source)
    warnings = build(source, site)
    print("\n".join(warnings) if warnings else f"{len(PAGES)} pages: {site / 'index.html'}")
    return 1 if warnings else 0


if __name__ == "__main__":
    raise SystemExit(main())

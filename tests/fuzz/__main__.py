"""Coverage-guided fuzzing of every decoder: `python -m tests.fuzz [--runs N] [--seconds N] [TARGET ...]`.

The fuzzer (atheris) is fetched once into the cache outside the work tree. Findings are kept there too, and their paths
printed; `python -m tests.fuzz --replay FILE TARGET` runs one again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rocketflow.spark.java_runtime import cache_directory
from tests.fuzz import line_coverage
from tests.fuzz.line_coverage import Coverage
from tests.fuzz.targets import TARGETS, Target, in_memory
from tests.support import results
from tests.support.sanitized_kernel import sanitized_environment, sanitized_store, sanitizer
from tests.support.trials import ROOT, environment

ATHERIS = "atheris==3.0.0"
FETCH_SECONDS = 280
SLOW_SHARE = 200
"""The executions of a slow target are divided by this."""
KERNEL_TIMES = 17
"""Those of a target of the kernel are multiplied by this: they take microseconds."""
COVERED = ("-fsanitize-coverage=trace-pc,trace-cmp",)
"""How gcc compiles the kernel for `kernel_coverage.c`."""
AT_ONCE = 2
INPUT_SECONDS = 10
"""libFuzzer reports an input (of at most `MOST_BYTES`) that takes longer: the decoder is not linear."""
MOST_BYTES = 4096
MEMORY_MB = 2048


@dataclass(frozen=True)
class Fuzzed:
    """The result of one target; `finding` is the end of libFuzzer's output, or empty."""

    name: str
    executions: int
    seconds: float
    covered: int
    finding: str
    coverage: Coverage

    @property
    def a_second(self) -> float:
        return self.executions / self.seconds if self.seconds else 0.0


def fetch_fuzzer() -> Path | str:
    """Return the folder with the fuzzer, or the reason why it is not available."""
    folder = cache_directory() / "fuzz" / ATHERIS.replace("==", "-")
    done = folder / "fetched"
    if done.exists():
        return folder
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(folder)]
    try:
        got = subprocess.run([*command, ATHERIS], capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{ATHERIS} was not fetched within {FETCH_SECONDS} s"
    if got.returncode != 0:
        return f"{ATHERIS} is not available for this Python: {got.stderr.strip()[-300:]}"
    done.touch()
    return folder


def covered_kernel(home: Path) -> dict[str, str] | None:
    """Compile the kernel under `home` with the sanitizers and for the fuzzer; return the environment that loads it.

    None if gcc or its sanitizers are missing.
    """
    library = sanitizer()
    if library is None:
        return None
    counts = home / "kernel_coverage.o"
    source = Path(__file__).with_name("kernel_coverage.c")
    subprocess.run(["gcc", "-O2", "-fPIC", "-c", str(source), "-o", str(counts)], check=True)
    store = sanitized_store(home, *COVERED, str(counts))
    return {**sanitized_environment(library), "PYTHONPATH": os.pathsep.join([str(store), str(ROOT)])}


def fuzz(target: Target, runs: int, seconds: int, fuzzer: Path, environment: dict[str, str]) -> Fuzzed:
    """Run a target in a child process for `runs` executions, but not longer than `seconds`."""
    home = cache_directory() / "fuzz"
    corpus, findings = home / "corpus" / target.name, home / "findings" / target.name
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    began = time.monotonic()
    room = tempfile.mkdtemp(prefix="rocketflow-fuzz-", dir=in_memory())  # libFuzzer ends without cleaning up
    child = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.coverage_guided", target.name, str(corpus)),
            *(f"-runs={runs}", f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", "-print_final_stats=1"),
            *(f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={findings}{os.sep}"),
            *("-verbosity=1", "-close_fd_mask=0"),
        ],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join([environment["PYTHONPATH"], str(fuzzer)]),
            "RF_FUZZ_ROOM": room,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    shutil.rmtree(room, ignore_errors=True)
    output = "\n".join(line for line in child.stdout.splitlines() if "Instrumenting" not in line)
    executed = re.search(r"number_of_executed_units: (\d+)", output)
    covered = re.findall(r" cov: (\d+) ", output)
    finding = "" if child.returncode == 0 else output[-3000:]
    seconds = time.monotonic() - began
    return Fuzzed(
        target.name,
        int(executed[1]) if executed else 0,
        seconds,
        int(covered[-1]) if covered else 0,
        finding,
        Coverage() if finding or target.kernel else line_coverage.measure(target.name),
    )


def executions(target: Target, runs: int) -> int:
    """Return how often a target runs, if one of average cost runs `runs` times."""
    return runs * KERNEL_TIMES if target.kernel else runs // SLOW_SHARE if target.slow else runs


def main() -> int:
    """Return exit code 0 without findings, 3 with findings, 4 without a fuzzer."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--runs", type=int, default=120_000, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=600, help="longest time of each target")
    parser.add_argument("--replay", type=Path, help="run one input again")
    given = parser.parse_args()
    unknown = set(given.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    chosen = [TARGETS[name] for name in given.targets or TARGETS]
    if given.replay is not None:
        for target in chosen:
            target.run(given.replay.read_bytes())
        return 0
    fuzzer = fetch_fuzzer()
    if isinstance(fuzzer, str):
        print(f"coverage-guided fuzzing is not possible: {fuzzer}")
        return 4
    total, began, found = 0, time.monotonic(), 0
    print(f"{'target':<22}{'executions':>12}{'a second':>10}{'edges':>8}{'slowest ms':>12}")
    coverage = Coverage()
    with tempfile.TemporaryDirectory(prefix="rocketflow-kernel-") as home, ThreadPoolExecutor(AT_ONCE) as pool:
        kernel = covered_kernel(Path(home)) if any(one.kernel for one in chosen) else None
        if kernel is None and any(one.kernel for one in chosen):
            print("the kernel is not fuzzed: it needs gcc with its sanitizers", flush=True)
            chosen = [one for one in chosen if not one.kernel]
        homes = {False: environment(), True: kernel or {}}
        for one in pool.map(
            lambda target: fuzz(target, executions(target, given.runs), given.seconds, fuzzer, homes[target.kernel]),
            chosen,
        ):
            total += one.executions
            found += bool(one.finding)
            slowest = one.coverage.slowest_ms
            print(
                f"{one.name:<22}{one.executions:>12}{one.a_second:>10.0f}{one.covered:>8}{slowest:>12.2f}", flush=True
            )
            if not TARGETS[one.name].whole_store:
                coverage.add(one.coverage)
            if one.finding:
                print(one.finding, flush=True)
    seconds = time.monotonic() - began
    print(f"{total} executions in {seconds:.0f} s, {total / seconds:.0f} a second; findings: {found}")
    if coverage.ran:
        share, slowest = 100 * coverage.share, coverage.slowest_ms
        print(f"of the decoders' lines {share:.1f} % ran, the slowest input took {slowest:.2f} ms")
    if not given.targets:
        speed = round(total / seconds)
        results.measured(
            "fuzz",
            executions=total,
            perSecond=speed,
            findings=found,
            targets=len(chosen),
            linesPercent=round(100 * coverage.share, 1),
            slowestMs=round(coverage.slowest_ms, 2),
        )
        results.write([])
    return 3 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Resources of policies mean what they mean to RocketMQ 5, or are refused."""

from __future__ import annotations

import random
import subprocess
from typing import Final

import pytest

from rocketflow.access.permissions import Kind
from rocketflow.access.policies import PolicyError, parse_resource
from tests.apache.clients import jars
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.trials import SEED

pytestmark = pytest.mark.apache

VERSION: Final = "5.3.3"
KINDS: Final = ("Topic", "topic", "GROUP", "Cluster", "Any", "Namespace", "x", "")
PAIRS: Final = [("Topic:salary*test", "salary"), ("Topic:a*b*", "a"), ("Topic:a*", "ab"), ("*", "a"), ("Topic:*", "a")]


def drawn(count: int) -> list[tuple[str, str]]:
    """Return resources, and a topic for each."""
    source = random.Random(SEED)

    def text(letters: str) -> str:
        return "".join(source.choices(letters, k=source.randrange(5)))

    names = [text("ab*:% \u00e9") for _ in range(count)]
    return [(f"{source.choice(KINDS)}:{one}" if source.random() < 0.9 else one, text("ab:% ")) for one in names]


def meaning(resource: str, topic: str) -> str:
    """Return how RocketFlow writes a resource, and whether it has a topic."""
    try:
        parsed = parse_resource(resource)
    except PolicyError:
        return "refused"
    return f"{parsed}\t{str(parsed.has(Kind.TOPIC, topic)).lower()}"


def test_resources_are_those_of_rocketmq_or_are_refused() -> None:
    pairs = PAIRS + drawn(3_000)
    lib = jars(VERSION)
    done = subprocess.run(
        [
            java_and_javac()[0],
            *FLAGS,
            "-cp",
            f"{lib}/*:{compiled('AccountResources', VERSION, lib)}",
            "AccountResources",
        ],
        input="".join(f"{resource}\t{topic}\n" for resource, topic in pairs),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    answers = [one.removeprefix("= ") for one in done.stdout.splitlines() if one.startswith("= ")]
    assert len(answers) == len(pairs), done.stderr[-2000:]
    for (resource, topic), expected in zip(pairs, answers):
        found = meaning(resource, topic)
        assert found in (expected, "refused"), (SEED, resource, topic, expected)
        kind, sign, name = resource.partition(":")
        usable = resource == "*" or (sign and name and kind.lower() in ("topic", "group", "cluster"))
        if found == "refused" and usable:
            assert "*" in name.removesuffix("*"), (SEED, resource, expected)

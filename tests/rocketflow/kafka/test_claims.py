"""Claims: a bridge resumes however its topics are spelled, and a bridge with another id does not copy them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.kafka.errors import TopicClaimedError
from rocketflow.kafka.options.bridge_options import parse
from rocketflow.kafka.shared.claims import Claim, Pair, claims_of_marks, refuse_claimed
from rocketflow.kafka.shared.mark import Mark
from tests.rocketflow.kafka.bridging import Topics, bridge
from tests.rocketflow.kafka.test_start import some

Name = Callable[[str], str]


def id_of(direction: str, *more: str) -> str:
    asked = ["--bootstrap", "localhost:9092", "--store", "/s", *more]
    return parse(asked, program="p", direction=direction, example="e").bridge_id


@pytest.mark.parametrize("direction", ["kafka-to-store", "store-to-kafka"])
def test_default_id_does_not_depend_on_order_or_spelling_of_topics(direction: str) -> None:
    first = id_of(direction, "--topics", "a,b|c" if direction == "store-to-kafka" else "a,b.c")
    spelled = [
        ["--topics", "b.c, a"],
        ["--topics", "a,b.c,a"],
        ["--topics", "b.c,a", "--map", "a=a"],
        ["--topics", "b.c,a", "--map", "b.c=b|c"],
    ]
    assert {id_of(direction, *one) for one in spelled} == {first}
    others = [["--topics", "a"], ["--topics", "a,b.c", "--map", "a=other"], ["--topics-pattern", "a"]]
    assert first not in {id_of(direction, *one) for one in others}
    assert len({id_of(direction, *one) for one in others}) == 3


def test_pair_claimed_by_another_bridge_is_refused() -> None:
    claims = [Claim("old", Pair("t", "t", "id1"), {"0": 5}), Claim("mine", Pair("u", "u"), {"0": 1})]
    for pair in (Pair("t", "t", "id1"), Pair("t", "t")):
        with pytest.raises(TopicClaimedError, match=r"bridge old has copied t to t .*0: 5.*--id old .*--restart"):
            refuse_claimed("mine", [pair], claims)
    refuse_claimed(
        "mine", [Pair("t", "elsewhere"), Pair("t", "t", "id of the recreated topic"), Pair("u", "u")], claims
    )


def test_marks_claim_the_pairs_that_they_name() -> None:
    mark = Mark("s", {"a|b": {"0": 1}}, {"a.b": "id"})
    assert [one.pair for one in claims_of_marks({"x": mark}, "s")] == [Pair("a|b", "a.b", "id")]
    assert claims_of_marks({"x": mark}, "another") == []
    assert [one.pair for one in claims_of_marks({"x": Mark("s", {"a": {}}, {"c": None})}, "s")] == [Pair("a", "c")]
    assert [one.pair for one in claims_of_marks({"x": Mark("s", {"a": {}})}, "")] == [Pair("a", "a")]


def test_bridge_with_another_id_does_not_copy_a_claimed_topic(
    topics: Topics, store: str, name: Name, capfd: pytest.CaptureFixture[str]
) -> None:
    source, other, back = name("t"), name("u"), name("back")
    topics.create(source, other, back)
    topics.send(source, some(20))
    topics.send(other, some(5))
    assert bridge("kafka-to-store", topics.address, store, "--topics", source).rows == 20
    report = capfd.readouterr().err
    assert f"{source} to {source}, from 0: its begin, 1: its begin" in report
    old = report.split()[1].rstrip(":")
    assert (
        bridge("kafka-to-store", topics.address, store, "--topics", f" {source} ", "--map", f"{source}={source}").rows
        == 0
    )
    for share in ([], ["--share"]):
        with pytest.raises(TopicClaimedError, match=f"give --id {old} "):
            bridge("kafka-to-store", topics.address, store, "--topics", f"{source},{other}", *share)
    assert bridge("kafka-to-store", topics.address, store, "--topics", f"{source},{other}", "--id", old).rows == 5
    assert bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", "x", "--restart").rows == 20
    assert run(["bridge", "offset-map", store, "--topic", source, "--partition", "0"]) == 2
    assert f"one of {old}, x" in capfd.readouterr().err
    out = ["--topics", other, "--map", f"{back}={other}"]
    assert bridge("store-to-kafka", topics.address, store, *out, "--id", f"{other}-1").rows == 5
    with pytest.raises(TopicClaimedError, match=f"bridge {other}-1 has copied {other} to {back}"):
        bridge("store-to-kafka", topics.address, store, *out)
    assert bridge("store-to-kafka", topics.address, store, *out, "--restart").rows == 5
    assert Path(store).is_dir()

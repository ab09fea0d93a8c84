"""Names, permissions, codecs, messages and the root of errors, which both halves of RocketFlow need, are said once."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rocketflow.errors import RocketFlowError
from tests.project.parsed_code import nodes, parsed

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = (ROOT / "store", ROOT / "rocketflow")
TEXTS: Final = {
    ".".join(path.relative_to(root if root.name == "store" else ROOT).with_suffix("").parts): path.read_text("utf-8")
    for root in PRODUCT
    for path in sorted(root.rglob("*.py"))
    if "project" not in path.parts  # the project that `rocketflow init` writes
}
CONSTANTS: Final = {
    "%RETRY%": "rocketflow_store.model.topic_names",
    "%DLQ%": "rocketflow_store.model.topic_names",
    "%LMQ%": "rocketflow_store.model.topic_names",
    "[%|a-zA-Z0-9_-]+": "rocketflow_store.model.topic_names",
}
DEFINITIONS: Final = {
    "PERM_READ": "rocketflow_store.model.topic_names",
    "PERM_WRITE": "rocketflow_store.model.topic_names",
    "PERM_INHERIT": "rocketflow_store.model.topic_names",
    "message_property_text": "rocketflow_store.format.properties",
    "decode_properties": "rocketflow_store.format.properties",
    "decode_record": "rocketflow_store.format.record",
    "decode_records": "rocketflow_store.format.record",
    "batch_body": "rocketflow_store.format.batch_body",
    "batch_entries": "rocketflow_store.format.batch_body",
    "compress_body": "rocketflow_store.model.compression",
    "decompress_body": "rocketflow_store.model.compression",
    "decode_offset_msg_id": "rocketflow_store.model.message_id",
    "encode_host": "rocketflow_store.model.message_id",
    "decode_host": "rocketflow_store.model.message_id",
    "string_hash": "rocketflow_store.model.java_compat",
    "Message": "rocketflow_store.model.message",
    "ReceivedMessage": "rocketflow_store.model.message",
    "RocketFlowError": "rocketflow_store.model.errors",
    "TopicConfig": "rocketflow_store.tables.topic_config",
    "SubscriptionGroupConfig": "rocketflow_store.tables.subscription_group_config",
    "DataVersion": "rocketflow_store.tables.data_version",
}
DECOMPRESSORS: Final = ("LZ4FrameDecompressor", "ZstdDecompressor")
INNER: Final = frozenset(
    {
        "rocketflow.kafka.client.record_batches.BrokenBatchError",
        "rocketflow.process.stop_signals.StoppedError",
        "rocketflow.quality.gx.gx_metrics.MetricFailedError",
        "rocketflow.quality.suites.suite_plan._Refused",
        "rocketflow_store.files.json_text.DeepJsonError",
        "rocketflow_store.filters.sql92.scalar.IncomparableError",
        "rocketflow_store.model.setting.ValueNotAllowedError",
        "rocketflow_store.records.decoding.inner_batches.NoBatchBodyError",
    }
)
"""Errors that never leave the package that raises them, and the end by a signal."""


def definitions(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines at its top."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


@pytest.mark.parametrize("text", CONSTANTS)
def test_a_name_or_rule_of_rocketmq_is_written_in_one_module(text: str) -> None:
    found = {
        module
        for module, source in TEXTS.items()
        for node in nodes(source)
        if isinstance(node, ast.Constant) and node.value == text
    }
    assert found == {CONSTANTS[text]}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_codec_or_class_of_both_halves_is_defined_once(name: str) -> None:
    assert [module for module, source in TEXTS.items() if name in definitions(parsed(source))] == [DEFINITIONS[name]]


def test_bodies_are_decompressed_in_one_module() -> None:
    for name in DECOMPRESSORS:
        found = {
            module
            for module, source in TEXTS.items()
            for node in nodes(source)
            if isinstance(node, ast.Attribute) and node.attr == name
        }
        assert found == {"rocketflow_store.model.compression"}, name


def test_all_errors_have_one_root() -> None:
    raised = []
    for module, source in TEXTS.items():
        for node in parsed(source).body:
            if not isinstance(node, ast.ClassDef) or not node.bases or f"{module}.{node.name}" in INNER:
                continue
            if not any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases):
                continue
            kind = getattr(importlib.import_module(module), node.name)
            if not issubclass(kind, RocketFlowError):
                raised.append(f"{module}.{node.name}")
    assert raised == []

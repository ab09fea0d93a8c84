"""The metadata for Airflow's provider manager: the connection type and its form fields."""

from __future__ import annotations

from typing import Any, Final

CONNECTION_TYPE: Final = "rocketflow"


def get_provider_info() -> dict[str, Any]:
    """Return the metadata; called through the entry point `apache_airflow_provider`."""
    return {
        "package-name": "rocketflow",
        "name": "RocketFlow",
        "description": "Stores in RocketMQ's format: verify, rebuild, requeue, retention.",
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": "rocketflow.airflow.hook.RocketFlowStoreHook",
                "hook-name": "RocketFlow store",
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "schema", "login", "password", "port"],
                    "relabeling": {},
                },
                "conn-fields": {
                    "path": _text("Store directory", "as the workers see it, e.g. /data/store"),
                    "command": _text("rocketflow command", "default: $ROCKETFLOW_COMMAND, else rocketflow on PATH"),
                    "config": _text("broker.conf", "if file sizes or paths cannot be read from the store"),
                    "audit_dir": _text("Audit directory", "for the reports of rocketflow_store_audit"),
                    "expectations_dir": _text("Expectations", "directory with a suite for each topic: TOPIC.json"),
                    "spark_arguments": _text("spark-submit arguments", "for jobs, e.g. --master spark://host:7077"),
                },
            }
        ],
        "integrations": [{"integration-name": "RocketFlow", "external-doc-url": "", "tags": ["software"]}],
        "hooks": [_modules("hook")],
        "operators": [_modules("operators")],
        "sensors": [_modules("sensor")],
        "triggers": [_modules("trigger")],
    }


def _text(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}


def _modules(name: str) -> dict[str, Any]:
    return {"integration-name": "RocketFlow", "python-modules": [f"rocketflow.airflow.{name}"]}

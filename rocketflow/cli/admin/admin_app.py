"""All subcommands of `rocketflow admin`."""

from __future__ import annotations

from rocketflow.cli.admin import brokers, groups, members, messages, topics
from rocketflow.cli.admin.subcommand import admin_app

__all__ = ["admin_app", "brokers", "groups", "members", "messages", "topics"]

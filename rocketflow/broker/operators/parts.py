"""The requests about the broker itself, its users and its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketflow.broker.operators.admin import Admin
from rocketflow.broker.operators.config_requests import ConfigRequests
from rocketflow.broker.operators.upkeep import Upkeep
from rocketflow.broker.parts import Parts, Services

if TYPE_CHECKING:
    from rocketflow.access.served import Served
    from rocketflow.broker.figures import FigureParts
    from rocketflow.broker.operators.access import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow.process.live_settings import LiveSettings
    from rocketflow_store.spi.broker import WritingStore


class OperatorParts(Parts):
    """The parts about the broker itself; `settings_text` returns the settings in effect."""

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        topics: Topics,
        figures: FigureParts,
        access: Access,
        live: LiveSettings,
        settings_text: Callable[[], str],
    ) -> None:
        self._access = access
        super().__init__(Admin(settings, figures), ConfigRequests(live, settings_text, topics), Upkeep(store))

    def served(self) -> list[Served]:
        """Return the requests about the broker, and those about its users."""
        return [*super().served(), *self._access.user_requests()]

    def services(self) -> Services:
        """Return the watch on the files of accounts."""
        return self._access.services()

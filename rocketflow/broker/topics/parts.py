"""The requests and figures of topics, and the registration of a broker's topics at its NameServers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.broker.parts import Parts
from rocketflow.broker.topics.registration import Registration
from rocketflow.broker.topics.topic_admin import TopicAdmin
from rocketflow.broker.topics.topics import Topics

if TYPE_CHECKING:
    from rocketflow.aio.exposition import Exposition
    from rocketflow.aio.tls import Tls
    from rocketflow.broker.figures import BrokerStats
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import WritingStore


class TopicParts(Parts):
    """The parts about topics; `tls` is for connections to NameServers."""

    def __init__(self, store: WritingStore, settings: BrokerSettings, stats: BrokerStats, tls: Tls | None) -> None:
        self.topics = Topics(
            store, settings, lambda: self.registration.register_soon(), lambda: self.registration.registered()
        )
        self.topics.on_deleted.append(stats.topic_deleted)
        self.registration = Registration(settings, self.topics, tls)
        super().__init__(TopicAdmin(store, settings, self.topics, stats))

    def add_figures(self, shown: Exposition) -> None:
        """Add the number of topics, and which NameServers know of them."""
        shown.gauge("rocketmq_topic_number", "Topics", [((), len(self.topics.all()))])
        up = [((one,), float(is_up)) for one, is_up in self.registration.is_up().items()]
        text = "1 if the NameServer took the last registration"
        shown.gauge("rocketflow_name_server_up", text, up, ("name_server",))

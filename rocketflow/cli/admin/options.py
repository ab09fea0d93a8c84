"""Options that several subcommands share, with mqadmin's flags."""

from typing import Annotated

import typer

TopicOption = Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", help="The topic.")]
GroupOption = Annotated[str, typer.Option("-g", "--groupName", metavar="GROUP", help="The consumer group.")]
BrokerOption = Annotated[
    str | None, typer.Option("-b", "--brokerAddr", metavar="HOST:PORT", help="One broker, by its address.")
]
ClusterOption = Annotated[
    str | None, typer.Option("-c", "--clusterName", metavar="NAME", help="All masters of a cluster.")
]
OneClusterOption = Annotated[str, typer.Option("-c", "--clusterName", metavar="NAME", help="The cluster.")]
BrokerNameOption = Annotated[str, typer.Option("-b", "--brokerName", metavar="NAME", help="The broker's name.")]

"""Rows of trace about messages that `poll` returns."""

from __future__ import annotations

from rocketflow.aio.loop import run
from rocketflow.client import ConsumeFrom, PullConsumer, PullOptions
from rocketflow.client.admin.admin_client import AdminClient
from tests.support.client_cluster import ClientCluster, queue_of


def test_polled_messages_have_rows_before_and_after(servers: ClientCluster) -> None:
    async def main() -> None:
        topic, trace, group = await servers.new_topic(1), await servers.new_topic(1), servers.new_name()
        await servers.send(topic, ["a", "b"], properties={"KEYS": "k"})
        options = PullOptions(
            name_servers=servers.names.address, group=group, start=ConsumeFrom.FIRST, trace_topic=trace
        )
        found = []
        async with PullConsumer(options) as consumer:
            await consumer.assign([queue_of(topic)])
            while len(found) < 2:
                found += await consumer.poll()
        async with AdminClient(servers.client_options) as admin:
            pulled = await admin.pull(queue_of(trace), 0)
        rows = [row.split("\x01") for one in pulled.messages for row in one.body.decode().split("\x02")[:-1]]
        before = [row for row in rows if row[0] == "SubBefore"]
        after = [row for row in rows if row[0] == "SubAfter"]
        assert [row[5] for row in before] == [row[2] for row in after] == [one.message_id for one in found]
        assert {(row[4], row[6], row[8]) for row in after} == {("true", "0", group)}
        assert [row[7] for row in before] == ["k", "k"]

    run(main())

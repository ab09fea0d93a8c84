"""The NameServer: which brokers exist, and which of them have the queues of a topic.

| module | content |
|---|---|
| `route_table` | the tables and their rules, without I/O; times are arguments |
| `registration` | the body with which a broker registers |
| `kv_config` | texts by namespace and key, kept in RocketMQ's file |
| `processors` | requests of clients, brokers and operators |
| `settings` | namesrv.conf |
| `service` | start and stop |

NameServers do not talk to each other: a broker registers at each of them.
"""

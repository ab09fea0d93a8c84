"""The broker: one store, served by RocketMQ's protocol.

| module | content |
|---|---|
| `service` | start and stop, and which processor handles which request |
| `settings` | broker.conf |
| `client_properties` | what becomes of properties that are the broker's when a client sends them |
| `sends`, `put_gatherer`, `waiting_puts` | sends, and one append to the store for those that wait for it together |
| `pulls`, `held_pulls` | pulls, and those that wait for messages |
| `clients` | producers and consumers by heartbeat |
| `queue_locks` | queues that consumers lock |
| `offsets` | offsets of groups, where they pull next, and offsets of queues |
| `queries` | messages by key and by place |
| `recalls` | timer messages taken back before they are delivered |
| `transactions` | half messages, their ends, and checks of undecided ones (table in its docstring) |
| `replies`, `awaited_replies` | replies of request-reply, to the client that waits; with accounts, who waits |
| `send_back` | messages that a consumer could not handle |
| `topics`, `groups` | settings of topics and groups, and those made on first use |
| `table_changes` | one write of a table for the changes that arrive together |
| `admin`, `topic_admin`, `group_admin`, `upkeep` | requests of operators |
| `member_calls` | requests of operators that members of a group answer |
| `stored_times` | store times of messages, kept for the figures of groups |
| `runtime_figures`, `timer_figures` | figures for mqadmin's `brokerStatus` and `clusterList`, those of timer messages |
| `counts`, `lags`, `metrics` | counts of messages, lags of groups, and all figures for Prometheus |
| `stats` | counts by topic and group over the last minute, hour and day, for mqadmin's `statsAll` |
| `access`, `user_requests`, `user_settings` | who may send which request and read which record; users and policies |
| `store_requests` | commits and deliveries of jobs that see the store's directory; the flush that begins a backup |
| `registration` | calls to NameServers |

All state belongs to the event loop's thread. Calls of the store that may wait for the disk run in helper threads.
"""

"""The broker: one store, served by RocketMQ's protocol.

| folder or module | content |
|---|---|
| `service` | start and stop; puts the folders together |
| `settings`, `user_settings` | broker.conf |
| `parts` | what a folder gives to the whole: its requests, services and figures |
| `puts` | sends, messages that consumers send back, replies, recalls |
| `reads` | pulls, ranges, queries |
| `transactions` | half messages, their ends, and checks of undecided ones |
| `groups` | clients, groups, offsets, locks |
| `topics` | topics, attributes, registration at NameServers |
| `operators` | requests about the broker itself; access, users and policies |
| `figures` | counts, and the figures made of them |
| `store_requests` | commits and deliveries of jobs that see the store's directory; the flush that begins a backup |

Each folder's docstring has a table of its modules. All state belongs to the event loop's thread. Calls of the store
that may wait for the disk run in helper threads.
"""

"""Parts of consumers that push and pull share.

| module | content |
|---|---|
| `allocation` | RocketMQ's six strategies: which queues of a topic a client of a group gets |
| `rebalance` | the queues of a client, and what has changed; the loop that computes them again |
| `subscriptions` | subscriptions to tags and to SQL, and the filter of tags |
| `membership` | the group of a client: its heartbeats, the ids of all its clients |
| `conflicts` | subscriptions that differ within the group |
| `pulls` | one pull request and its result |
| `offset_stores` | offsets of a group at brokers, or in a local file |
| `idempotent` | listeners that handle each message once |
| `trace` | rows about messages before and after they are consumed |
| `running_info` | what a consumer reports of itself |
| `start_positions` | the offset at which a queue without an offset begins |
"""

"""Reads of a source through brokers: what `path` reads from files.

| module | content |
|---|---|
| `stores` | the brokers of a read, as the planner and the tasks use them, with plain methods |
| `broker_reads` | the requests, on asyncio: masters and slaves, retries, routes |
| `queue_table` | the queues that a read knows, without I/O |
| `pull_window` | one range of a queue, several pulls at a time, in order |
"""

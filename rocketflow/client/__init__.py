"""Clients of NameServers and brokers, on asyncio; they import neither the broker nor the store.

| module | content |
|---|---|
| `producer` | routes, batches of messages, and where queues end |
| `store_client` | commits and deliveries of jobs, by the broker that serves their store |
| `messages` | messages as the wire has them, without I/O |
"""

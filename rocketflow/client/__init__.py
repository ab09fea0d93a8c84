"""Clients of NameServers and brokers, on asyncio; they import neither the broker nor the store.

| module | content |
|---|---|
| `cluster` | one client's routes, requests to NameServers and brokers, heartbeats |
| `options`, `errors` | what every client is given, and what it raises |
| `routes`, `ids`, `compression` | queues of a route, ids, compressed bodies, without I/O |
| `messages`, `received` | what is sent and what is received, without I/O |
| `consume` | parts of consumers: strategies, subscriptions, pulls, offsets |
| `producer` | batches of messages, and where queues end |
| `sync` | the clients with plain methods, for callers without an event loop |
| `store_client` | commits and deliveries of jobs, by the broker that serves their store |
"""

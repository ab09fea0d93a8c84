"""Requests of operators to NameServers and brokers.

| module | content |
|---|---|
| `admin_client` | `AdminClient`, which has all of them |
| `topic_requests`, `group_requests`, `broker_requests`, `message_requests` | the requests by subject |
| `figures` | bodies of answers, and maps whose keys are queues |
"""

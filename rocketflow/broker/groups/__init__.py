"""Groups: clients and their groups, what they have read, and requests about them.

| module | content |
|---|---|
| `clients`, `client_requests` | producers and consumers by heartbeat; their requests |
| `groups` | settings of groups, and those made on first use |
| `offsets` | offsets of groups, where they pull next, and offsets of queues |
| `lags` | lags of groups by topic |
| `queue_locks` | queues that consumers lock |
| `member_calls` | requests of operators that members of a group answer |
| `group_admin` | requests of operators about groups |
"""

"""Reads: every request whose answer holds stored messages.

| module | content |
|---|---|
| `pulls`, `held_pulls` | pulls, and those that wait for messages |
| `range_pulls` | records of many messages in one answer |
| `queries` | messages by key and by place |
| `filters` | filters of subscriptions |
"""

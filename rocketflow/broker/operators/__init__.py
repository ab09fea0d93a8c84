"""Operators: requests about the broker itself, and who may send which request.

| module | content |
|---|---|
| `admin` | groups, clients and figures |
| `config_requests` | settings |
| `upkeep` | unused topics and queues, expired files, and how the broker is used |
| `access` | who may send which request and read which record |
| `user_requests`, `user_settings` | users and policies |
"""

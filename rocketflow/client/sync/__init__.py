"""Clients with plain methods: the names of `rocketflow.client`, without `await`.

| module | content |
|---|---|
| `bridge` | the event loop in a thread that runs all of them, and their base class |
"""

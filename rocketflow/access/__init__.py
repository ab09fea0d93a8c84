"""Access control of NameServer and broker: who may send which request.

| module | content |
|---|---|
| `permissions` | rows: what a request needs; what a topic and a stored message need |
| `served` | the declaration of a request at its processor: its code and its row |
| `addresses` | patterns of addresses |
| `plain_rules`, `plain_files` | accounts of RocketMQ 4: the rules, and the YAML files that hold them |
| `policies`, `user_rules` | users and policies of RocketMQ 5: the decision about a resource, and about a request |
| `signatures` | signatures, and requests that were seen before |
| `guard` | the check before a request reaches its processor |

`permissions`, `addresses`, `plain_rules`, `policies` and `signatures` decide without I/O. Without rules, requests of
operators are taken from the server's own host only.
"""

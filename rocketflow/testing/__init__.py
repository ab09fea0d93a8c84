"""A NameServer and a broker for the tests of applications that use RocketMQ, in any language; no Java, no Docker.

| module | content |
|---|---|
| `cluster` | `start_cluster`: both servers, in a temporary directory, on free ports of 127.0.0.1 |
| `plugin` | the fixtures `rocketmq` and `rocketmq_topic` of pytest |
| `__main__` | `python -m rocketflow.testing COMMAND...`: a command that gets the address of a NameServer |
| `server_process` | one server as a process, which ends with the process that started it |
| `ports`, `errors` | free ports; what is raised |
"""

from rocketflow.testing.cluster import Cluster, start_cluster
from rocketflow.testing.errors import ServerStartError

__all__ = ["Cluster", "ServerStartError", "start_cluster"]

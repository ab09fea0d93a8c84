"""RocketMQ's wire protocol on asyncio: connections, a server, and calls of other servers.

| module | content |
|---|---|
| `channel` | one connection: bytes to commands and back, requests in both directions |
| `server` | listening sockets, and requests handed to the processors of their codes |
| `peers` | connections to other servers by address, and requests to them |
| `tls` | contexts of TLS, rebuilt when their files change |
| `http`, `exposition` | health and figures over HTTP, in Prometheus' format |
| `histogram`, `rpc_latency` | what is counted often, as plain integers |
| `loop` | the event loop (uvloop where it is installed), and services that run in it |
| `loop_lag` | a watch on the loop's lag, which names what blocked it |

Everything here belongs to one event loop and is called in its thread. Nothing waits without a deadline, and nothing is
buffered without a limit.
"""

"""RocketMQ's wire protocol without any I/O: frames, headers, codes, bodies, and the state of a connection.

| module | content |
|---|---|
| `frame` | frames out of the bytes of a connection |
| `command` | requests and answers, in both header types |
| `codes` | request and response codes |
| `headers` | one class for each header class of RocketMQ |
| `bodies`, `fastjson` | JSON bodies, and the JSON of RocketMQ's fastjson |
| `store_bodies` | JSON bodies of RocketFlow's own requests about a broker's store |
| `rpc_hook`, `signature` | what runs before requests and after answers; signatures of accounts, and marks |
| `pending` | requests that wait for their answers |

The package imports the standard library and msgspec only, and no module for sockets, threads, event loops or clocks: a
caller passes bytes and times in, and gets values and bytes out.
"""

"""The lite pull consumer: the caller asks for messages, and decides what is committed.

| module | content |
|---|---|
| `consumer` | `PullConsumer`: assign or subscribe, poll, seek, pause, commit |
| `assignment` | the queues to read: by the caller, or by rebalances |
| `options` | its options, its listener and the events that it reports |
| `queue_buffer` | the position in one queue and the answers that wait to be polled, without I/O |
| `fetching` | a task for each queue, which pulls ahead |
| `broker_requests` | what brokers and operators ask for |
"""

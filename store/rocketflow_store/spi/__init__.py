"""The builders' door: modules for pipelines, jobs and brokers on the store, in addition to the users' door.

| module | content |
|---|---|
| `messages`, `ids`, `names` | the standard library alone: messages, codecs; ids, hashes; names, permissions |
| `broker` | the store of a broker: appends and reads of the wire's bytes, arrivals, RocketMQ's tables, send-back |
| `writing` | open a store for writing while other processes do so too |
| `reads` | reads beyond the methods of a StoreReader: figures of queues, exports, inner messages |
| `records` | columns that a store reads and writes; rows encoded for a commit |
| `staging` | rows that tasks encoded and no commit has appended yet |
| `commits` | exactly-once commits of a sink's batches, and of progress with its rows |
| `delivery` | delayed and timer messages that are due |
| `requeue` | chosen rows requeued, each once, with a ledger |
| `tables` | RocketMQ's JSON: topics, offsets of groups |
| `maintenance` | verify and repair, dump a file, previews of a recovery and of a clean-up |
| `rebuild` | queues and index from the log alone, on any engine |
| `places` | checks whether a directory may be a store, and the process that writes to it |
| `filters` | tags and SQL92 |
| `setting_rows` | the type of everything that a user can set; needs the standard library alone |
| `settings`, `events` | settings from environment and broker.conf; events for operators, under stable codes |
| `arrow`, `json_text` | kernels on Arrow arrays; JSON from outside the store, parsed with limits |

Importing this package loads nothing; importing a module loads what it exports. A module has at most 25 names, and each
name has a caller. Before a name is added, ask whether its callers compose parts that should be one function of the
store.
`tests/project/test_doors.py` checks both, and that only the two doors are imported.
"""

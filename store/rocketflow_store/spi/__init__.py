"""The builders' door: what pipelines, jobs and brokers on the store use besides the users' door, by module.

| module | what |
|---|---|
| `writing` | open a store for writing beside others that do so |
| `reads` | what a reader's own methods do not answer: figures of queues, exports, inner messages |
| `records` | columns that a store reads and writes; rows encoded for a commit |
| `staging` | rows that tasks encoded, until a commit takes them |
| `commits` | exactly-once commits, of a sink's batches and of progress with its rows |
| `delivery` | delayed and timer messages that are due |
| `requeue` | chosen rows requeued, each once, with a ledger |
| `tables` | RocketMQ's JSON: topics, offsets of groups |
| `maintenance` | verify and repair, dump a file, previews of a recovery and of a clean-up |
| `rebuild` | queues and index from the log alone, on any engine |
| `places` | which directory may be a store, and who writes to it |
| `names`, `filters` | topics, groups, properties, and what may be one; tags and SQL92 |
| `settings`, `events` | settings from environment and broker.conf; codes of what operators have to hear of |
| `arrow`, `json_text` | kernels on Arrow arrays; JSON from outside, with limits |

Importing this package loads nothing; a module loads what it names. Each has at most 25 names, and each name a caller:
before one is added, ask whether its callers compose pieces that should be one function of the store.
`tests/project/test_doors.py` checks both, and that nothing but the two doors is imported.
"""

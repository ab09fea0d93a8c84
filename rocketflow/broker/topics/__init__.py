"""Topics: their settings, who learns of them, and requests about them.

| module | content |
|---|---|
| `topics` | settings of topics, and those made on first use |
| `attributes` | attributes of topics and groups |
| `table_changes` | one write of a table for the changes that arrive together |
| `topic_admin` | requests of operators about topics |
| `registration` | calls to NameServers |
| `stored_times` | store times of messages, kept for the figures of groups |
"""

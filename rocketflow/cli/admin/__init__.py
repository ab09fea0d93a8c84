"""`rocketflow admin`: mqadmin's subcommands, flags and columns, without Java.

| module | content |
|---|---|
| `admin_app` | all subcommands |
| `subcommand` | makes a command of a coroutine function, and gives it the options that all have |
| `output` | JSON, or tables and lines in mqadmin's words |
| `targets` | brokers of a cluster, times |
| `topics`, `groups`, `members`, `messages`, `brokers` | the subcommands |

The modules of subcommands evaluate their annotations, so they do not import them from `__future__`.
"""

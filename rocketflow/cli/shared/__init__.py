"""Options, tables and failures that all commands share."""

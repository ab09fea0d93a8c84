"""The reference: settings, options, commands, event codes, JSON output. One source for `explain` and the pages."""

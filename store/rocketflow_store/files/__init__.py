"""The only modules that call the operating system: files, syncs, locks."""

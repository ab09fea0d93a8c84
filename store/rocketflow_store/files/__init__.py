"""The only modules that ask the operating system for anything: files, syncs, locks."""

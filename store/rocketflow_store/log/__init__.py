"""The CommitLog: its consecutive files, written at the end and read by physical offset."""

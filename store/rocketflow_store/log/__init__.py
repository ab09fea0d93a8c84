"""The CommitLog: its files one behind another, what is written to it and read from it by physical offset."""

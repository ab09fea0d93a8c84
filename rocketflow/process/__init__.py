"""The start, output, stop and exit code of commands and jobs."""

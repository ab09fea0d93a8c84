"""Read record bytes into columns."""

"""Parse message bodies into columns."""

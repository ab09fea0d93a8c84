"""Choose messages by tags or SQL92."""

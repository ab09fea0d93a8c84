"""The open writer: the store, its background threads, retention."""

"""IndexFiles: from a key to physical offsets."""

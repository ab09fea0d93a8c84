"""Read a store as batches and streams."""

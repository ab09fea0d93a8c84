"""The way of messages into a store: one, many, later; and from the log into queues and index."""

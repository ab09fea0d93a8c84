"""Kafka's clients: poll, decode and send batches."""

"""Kafka clients: polling, decoding and sending record batches."""

"""Options of the bridge and of its Kafka clients."""

"""Copy topics of a store into Kafka."""

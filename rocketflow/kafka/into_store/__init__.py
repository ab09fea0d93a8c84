"""Copy topics of Kafka into a store."""

"""The bridge between a store and Apache Kafka, exactly once in both directions: see README.md beside this file."""

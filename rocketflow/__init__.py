"""RocketFlow: a Spark Structured Streaming pipeline on RocketMQ's storage design."""

__version__ = "0.2.0"

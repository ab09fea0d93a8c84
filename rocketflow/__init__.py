"""RocketFlow: topics of Apache RocketMQ in Python, with Spark Structured Streaming or plain clients."""

__version__ = "0.2.0"

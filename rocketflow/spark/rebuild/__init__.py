"""Rebuild queues and index as a Spark job."""

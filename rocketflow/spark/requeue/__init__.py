"""Deliver and requeue messages as Spark jobs."""

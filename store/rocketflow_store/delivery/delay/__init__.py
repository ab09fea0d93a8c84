"""Delay levels: what is due goes from SCHEDULE_TOPIC_XXXX to its own topic, once."""

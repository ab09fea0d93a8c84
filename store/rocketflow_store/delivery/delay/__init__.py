"""Delay levels: due messages move from SCHEDULE_TOPIC_XXXX to their topics, each exactly once."""

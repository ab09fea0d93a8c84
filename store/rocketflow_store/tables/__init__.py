"""Rows of RocketMQ's tables of topics and groups, as config files, requests and answers have them; needs msgspec."""

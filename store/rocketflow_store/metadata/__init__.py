"""The directories and sizes of a store's files, its small RocketFlow files, and RocketMQ's JSON files."""

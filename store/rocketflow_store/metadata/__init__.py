"""Where the parts of a store are, and its small files: RocketFlow's and RocketMQ's."""

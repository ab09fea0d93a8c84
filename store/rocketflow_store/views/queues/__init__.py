"""ConsumeQueues of every kind: units, tables of queues, offsets."""

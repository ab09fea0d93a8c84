"""Views derived from the log: ConsumeQueues, the index, and the dispatch that writes them."""

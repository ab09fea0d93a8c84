"""What is derived from the log: ConsumeQueues, IndexFiles, and the dispatch that writes them."""

"""Write paths of a store: single, bulk and asynchronous puts, appended to the log and acknowledged."""

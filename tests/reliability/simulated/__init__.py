"""Row N16: servers and clients as simulated processes of one event loop, in simulated time."""

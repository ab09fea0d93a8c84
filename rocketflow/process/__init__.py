"""How a command or job begins, reports, stops and ends."""

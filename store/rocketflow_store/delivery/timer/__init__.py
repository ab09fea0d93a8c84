"""Timer messages: wheel, timer log and checkpoint, and the delivery of what is due."""

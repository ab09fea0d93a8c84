"""What a get answers."""

"""Code shared by both directions of the bridge."""

"""What both directions of the bridge share."""

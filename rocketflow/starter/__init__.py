"""The small project that `rocketflow init` writes."""

"""Small files that only RocketFlow writes, one module each."""

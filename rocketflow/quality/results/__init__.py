"""Results of checks, their trend and their site."""

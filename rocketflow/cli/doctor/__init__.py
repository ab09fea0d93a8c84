"""`rocketflow doctor`: what this machine allows."""

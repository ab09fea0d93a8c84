"""`rocketflow doctor`: checks of this machine."""

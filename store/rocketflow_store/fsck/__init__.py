"""`verify` and `repair`."""

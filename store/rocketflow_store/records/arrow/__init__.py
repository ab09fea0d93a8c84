"""Arrow kernels that encoding and decoding share."""

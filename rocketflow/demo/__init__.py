"""The demo: real flights through a stream, with the proof of the result."""

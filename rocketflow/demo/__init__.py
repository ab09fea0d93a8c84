"""The demo: streams real flights through a store and checks the result."""

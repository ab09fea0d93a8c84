"""Expectation suites: read, plan, probe."""

"""Metrics and logs of the API's requests."""

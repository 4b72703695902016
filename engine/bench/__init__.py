"""Measurements through the same service and events that the app uses."""

"""Estimates of a deployment: memory, layout, network and speed."""

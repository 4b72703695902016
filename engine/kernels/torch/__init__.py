"""Attention and linear layers on torch whose results do not depend on how many rows are computed."""

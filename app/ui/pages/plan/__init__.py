"""The plan page: how to start a model on other engines, and what to expect of it."""

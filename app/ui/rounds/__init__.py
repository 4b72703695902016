"""Rounds and their statistics in the form that the pages read."""

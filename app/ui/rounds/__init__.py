"""Rounds and their statistics as the pages are told of them."""

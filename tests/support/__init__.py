"""Fakes that keep the real contracts, so that a test of the loop needs no weights."""

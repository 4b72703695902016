"""Proposers, which draft, and controllers, which decide how far."""

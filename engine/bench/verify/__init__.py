"""Check that drafting, quantisation and batching change no token and no log probability."""

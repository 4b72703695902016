"""Bodies in, replies and streams out, and clients that leave."""

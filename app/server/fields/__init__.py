"""Fields of request bodies, and those that are refused."""

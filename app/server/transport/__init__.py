"""Request bodies in; answers and streams out; clients that leave."""

"""What people touch: the pages, the OpenAI-compatible server, the command line."""

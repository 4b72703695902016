"""``python -m tools.load``: a crowd before the endpoint, and before llama.cpp's, for minutes."""

"""Tokenizers rebuilt from a GGUF file's metadata."""

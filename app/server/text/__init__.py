"""Tokens and templates without a reply, and code between two parts of a file: llama.cpp's and vLLM's
``/tokenize``, ``/detokenize``, ``/apply-template`` and ``/infill``."""

"""Read and write GGUF, the file format of llama.cpp."""

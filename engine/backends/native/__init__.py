"""The step in C++, compiled for this processor."""

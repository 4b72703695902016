"""The compiled executor: its step is C++, compiled for this processor."""

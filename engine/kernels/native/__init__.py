"""The decoder's step in C++, compiled on the machine it runs on.

In PyTorch a step of a small model spends most of its time between operations: some twenty calls a layer
of a few microseconds each. Here it is one call. ``linear.cpp`` multiplies by matrices, ``native.cpp``
computes the step. ``backends/native/build.py`` compiles both once; ``library`` calls them.
"""

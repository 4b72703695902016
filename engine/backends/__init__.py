"""A model's step made of kernels, once for each way to compute it."""

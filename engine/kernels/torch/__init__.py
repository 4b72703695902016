"""CPU kernels whose results do not depend on how many rows are computed together."""

"""The step as torch's operations: the reference, and what runs everywhere."""

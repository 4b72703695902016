"""What is trained: one module for each kind of head."""

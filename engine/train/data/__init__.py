"""Training data: prompts, replies of the target, and its hidden states."""

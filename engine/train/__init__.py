"""Training of small models for Foretoken: tokenizer, target and draft from one recipe."""

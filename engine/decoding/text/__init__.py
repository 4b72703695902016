"""Convert text to tokens and back: chat templates, the tokenizer, the output processor."""

"""Train the tests' tiny Qwen3.5: a hybrid with an MTP layer, 1.4 M parameters, on the tales."""

"""The workshop, not installed: how Pip was made, other engines, the GPU bench, charts, pictures."""

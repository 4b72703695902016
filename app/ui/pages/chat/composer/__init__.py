"""The message box: what goes with a message."""

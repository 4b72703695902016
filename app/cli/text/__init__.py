"""Text on the terminal: replies, tables, plans and progress."""

"""``python -m app.cli``: what the launcher starts."""

from app.cli import main

main()

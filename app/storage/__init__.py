"""Chats in SQLite, and what becomes of a damaged file."""

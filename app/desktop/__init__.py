"""Foretoken as a program of the desktop: its window, its icon, one instance."""

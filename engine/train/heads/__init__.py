"""Trainers: one module for each kind of head."""

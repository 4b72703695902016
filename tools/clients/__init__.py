"""Packages and programs that people point at the API, run against it in an environment of their own."""

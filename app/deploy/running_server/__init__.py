"""A running server that a plan takes acceptance and step times from."""

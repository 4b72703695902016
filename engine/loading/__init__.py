"""From a name to a plan: catalog, pairing, what fits into memory, downloads."""

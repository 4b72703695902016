"""Everything that drafts, and what decides how far."""

"""A contest with other engines as tables and charts."""

"""The settings panel and the pickers of a pair, for several pages."""

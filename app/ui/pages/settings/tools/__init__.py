"""The part of the settings page where servers of tools are added and changed."""

"""Training runs that the app starts, and the drafters that they leave."""

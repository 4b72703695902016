"""What the API counts and logs of its requests."""

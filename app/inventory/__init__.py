"""Models on this machine: folders, downloads, the disk, and the user's own catalog."""

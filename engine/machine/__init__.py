"""The machine: devices, threads, containers, and the memory that is free."""

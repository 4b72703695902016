"""The engine of this machine: one thread owns the device."""

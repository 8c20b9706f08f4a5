"""The control plane in simulated time (README.md)."""

"""The deterministic simulator: libdatacast's own code over simulated links (see README.md)."""

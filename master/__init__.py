"""The master: one process per group (paper, section 3 and 4)."""

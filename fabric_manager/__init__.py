"""The fabric manager: the one view of the topology and its health, and the keeper of groups (paper, section 3)."""

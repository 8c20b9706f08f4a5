"""The fabric manager: the one view of the topology and its health, and the keeper of groups (paper, section 3)."""

import os

# NumPy's own threads spin for a moment after every product: that is time taken from the data path, for matrices too
# small to gain by it. Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

"""The master: one per group (paper, section 3 and 4)."""

import os

# NumPy's own threads spin for a moment after every product: that is time taken from the data path, for matrices too
# small to gain by it. Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

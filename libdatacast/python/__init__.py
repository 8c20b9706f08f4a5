"""The protocol core in Python: wire format, trees, routes, framing, and the binding to libdatacast."""

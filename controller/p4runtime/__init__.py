"""P4Runtime switches (bmv2): the same state as table entries, and a thin gRPC shim that carries them."""

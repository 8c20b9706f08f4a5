"""A registry's mirror on a host, of what groups delivered there."""

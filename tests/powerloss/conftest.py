"""The witness for all tests here."""

from witness import witness

__all__ = ["witness"]

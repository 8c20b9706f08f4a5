"""The `datacast` command."""

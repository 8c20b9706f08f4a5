"""What runs in simulated time need, for the process that forks them (services_kit/commands.py)."""

from __future__ import annotations

from commands import main

from . import __main__, fetchers, figures, sharing, sites, story

__all__ = ["__main__", "fetchers", "figures", "main", "sharing", "sites", "story"]

"""Controllers that know each other: a group whose receivers are at several sites (docs/sites.md)."""

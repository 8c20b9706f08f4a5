"""Where a group's data comes from, and who fetches which part of it."""

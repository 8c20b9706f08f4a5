"""The emulated data centre: a topology as Mininet hosts and shaped links, with the daemons of Datacast running in it."""

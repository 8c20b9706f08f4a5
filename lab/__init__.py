"""The emulated data centre: a topology as Mininet hosts and shaped links, with Datacast's daemons in it."""

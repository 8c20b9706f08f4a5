"""ns-3 as the independent witness of our own simulator: the same core, other devices, queues, event list and TCP."""

from .engine import Ns3Simulation, program

__all__ = ["Ns3Simulation", "program"]

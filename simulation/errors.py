"""What can be wrong with a simulation."""

from datacast.core.errors import DatacastError


class SimulationError(DatacastError):
    """A simulation that cannot be built or run."""


class ExperimentError(SimulationError):
    """An experiment that does not exist, or impossible parameters."""

    status = 422

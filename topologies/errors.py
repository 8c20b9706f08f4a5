"""What can be wrong with a topology. `code` is stable, for machines."""

from datacast.core.errors import UsageError


class TopologyError(UsageError):
    """Root of this package's errors; `what` names the culprit."""

    code = "topology"


class SpecError(TopologyError):
    """A spec such as `bcube:4,1` that is none, or whose sizes make no sense."""

    code = "bad_spec"


class FileError(TopologyError):
    """A file that cannot be read, or is no graph."""

    code = "bad_file"


class UnknownNode(TopologyError):
    """A node that the graph does not have."""

    code = "unknown_node"


class NodeError(TopologyError):
    """A node whose attributes are missing or make no sense."""

    code = "bad_node"


class LinkError(TopologyError):
    """A link that is no link: self loop, parallel, wrong port numbers."""

    code = "bad_link"

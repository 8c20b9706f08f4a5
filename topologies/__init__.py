"""Topologies as networkx graphs: the paper's three, hypercube, leaf-spine, Jellyfish, and any graph from a file."""

from .errors import FileError, LinkError, NodeError, SpecError, TopologyError, UnknownNode
from .fabrics import jellyfish, leafspine
from .files import from_file, from_json, to_json
from .graph import hosts, neighbour, port, switches, validate
from .layout import places
from .spec import FORMS, parse
from .structured import bcube, fattree, hypercube, torus

__all__ = [
    "FORMS",
    "FileError",
    "LinkError",
    "NodeError",
    "SpecError",
    "TopologyError",
    "UnknownNode",
    "bcube",
    "fattree",
    "from_file",
    "from_json",
    "hosts",
    "hypercube",
    "jellyfish",
    "leafspine",
    "neighbour",
    "parse",
    "places",
    "port",
    "switches",
    "to_json",
    "torus",
    "validate",
]

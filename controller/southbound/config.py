"""The switches a controller drives: typed, unknown keys refused, immutable once loaded.

A switch numbers its Datacast ports from 0 (the labels); `number` is what OpenFlow or P4Runtime calls the same port.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from datacast.controller.southbound import lldp
from datacast.controller.southbound.errors import ConfigError, SwitchError
from datacast.core.constants import P4_LOOP_OUT, P4_SEGMENT_MAX
from datacast.services import yaml_file
from datacast.services.tls import is_local
from datacast.services.validation import WORDS, first_error

PORT_MAX = 65534
"""DC_PORT_MAX: ports travel as 16 bits in a route."""
OPENFLOW_MSD = 3
"""Open vSwitch reads three labels (FLOW_MAX_MPLS_LABELS) and drops what it should pop under a fourth."""
OPENFLOW_NUMBER_MAX = 0xFFFFFEFF
V1MODEL_NUMBER_MAX = P4_LOOP_OUT - 1
"""Ports are 9 bits; from there on they are the node's own, the controller's (P4_CPU_PORT), and 511 means drop."""
NODE_MSD = P4_SEGMENT_MAX

Name = Annotated[str, Field(min_length=1, max_length=64)]
Mac = Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$", to_lower=True)]
PORT = r"([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
"""Of TCP: none above 65535."""
Address = Annotated[str, Field(pattern=rf"^\S+:{PORT}$")]
Addresses = Annotated[str, Field(pattern=rf"^[^\s,]+:{PORT}(,[^\s,]+:{PORT})*$")]
KEYS = "must hold keys and values (docs/dataplanes.md shows a whole file)"
SAID = {**WORDS, "model_type": KEYS, "model_attributes_type": KEYS}
"""What pydantic says in its own terms."""
ADDRESS = "an address and a port, such as 127.0.0.1:6653"
PATTERNS = {"mac": "an Ethernet address such as 02:00:00:00:00:01"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Neighbour(_Strict):
    """Who is at the other end of a cable."""

    node: Name
    port: Annotated[int, Field(ge=0, le=PORT_MAX)]
    mac: Mac | None = None


class PortConfig(_Strict):
    """A Datacast port."""

    port: int
    number: int
    mac: Mac | None = None
    """Its own address, for switches that do not tell (P4Runtime)."""
    neighbour: Neighbour | None = None


class Appliance(_Strict):
    """The cache appliance of a branch switch: the port it hangs on, its control socket."""

    number: int
    control: str | None = None
    replicate: bool = True
    """The switch copies for it (the REPLICATE label), at two rules more per port on OpenFlow switches."""


class Node(_Strict):
    """What the node in a switch's own pipeline is told (the keys of datacast-switch's `cache`)."""

    bytes_per_tree: Annotated[int, Field(ge=256, le=128 << 10)] = 128 << 10
    retx_ms: Annotated[float, Field(gt=0, le=60_000)] = 1.0


class OpenFlow(_Strict):
    """An OpenFlow 1.3 switch connects to the controller and names itself by its datapath id."""

    dpid: Annotated[int, Field(ge=1, lt=1 << 64)]


class P4Runtime(_Strict):
    """The controller connects to a P4Runtime switch."""

    address: Address
    device_id: Annotated[int, Field(ge=1, lt=1 << 64)] = 1


class Switch(_Strict):
    """One switch. Exactly one of `openflow` and `p4runtime`."""

    name: Name
    openflow: OpenFlow | None = None
    p4runtime: P4Runtime | None = None
    ports: tuple[PortConfig, ...]
    appliance: Appliance | None = None
    cache: Literal["p4"] | None = None
    """"p4": the switch's own pipeline is the node (p4src/node.p4); it needs no appliance."""
    node: Node = Node()
    bridges: bool = True
    """It forwards ordinary Ethernet; false where somebody else does on its cables, as the kernel in Mininet (mn/)."""

    @property
    def serves(self) -> bool:
        return self.cache == "p4"

    @property
    def kind(self) -> str:
        return "openflow" if self.openflow else "p4runtime"

    @property
    def msd(self) -> int | None:
        """The deepest stack this switch can pop from, or its own node can write; None: any."""
        return OPENFLOW_MSD if self.openflow else NODE_MSD if self.serves else None

    @property
    def rules_bound(self) -> int:
        """The most rules or entries it is given, whatever groups there are."""
        copies = self.appliance is not None and self.appliance.replicate
        return 4 * len(self.ports) + 16 if copies else 2 * len(self.ports) + 12

    @property
    def numbers(self) -> list[int]:
        """Of its ports, the appliance's last."""
        return [p.number for p in self.ports] + ([self.appliance.number] if self.appliance else [])

    def port_of(self, number: int) -> int | None:
        """The Datacast port with this number; None: the appliance's, or none of ours."""
        return next((p.port for p in self.ports if p.number == number), None)

    @model_validator(mode="after")
    def _check(self) -> Switch:
        if len(self.name.encode()) > lldp.NAME_MAX:
            raise ValueError(f"switch {self.name}: the name is longer than {lldp.NAME_MAX} bytes, which is what a "
                             "discovery frame holds")
        if (self.openflow is None) == (self.p4runtime is None):
            raise ValueError(f"switch {self.name}: give either openflow or p4runtime")
        if self.serves and (self.openflow or self.appliance):
            raise ValueError(f"switch {self.name}: cache: p4 is for P4Runtime switches without an appliance")
        if self.serves and any(p.number != p.port for p in self.ports):
            raise ValueError(f"switch {self.name}: with cache: p4 a port's number is that of its label: its node knows "
                             "one kind of numbers")
        highest = OPENFLOW_NUMBER_MAX if self.openflow else V1MODEL_NUMBER_MAX
        lowest = 1 if self.openflow else 0
        for p in self.ports:
            if not 0 <= p.port <= PORT_MAX:
                raise ValueError(f"switch {self.name}: port {p.port} is beyond the label range (0 to {PORT_MAX})")
        numbers = self.numbers
        for number in numbers:
            if not lowest <= number <= highest:
                raise ValueError(f"switch {self.name}: port number {number} is outside {lowest} to {highest} of "
                                 f"{self.kind}")
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"switch {self.name}: a port number is used twice")
        if len({p.port for p in self.ports}) != len(self.ports):
            raise ValueError(f"switch {self.name}: a port is listed twice")
        return self


class Pipeline(_Strict):
    """What `make p4` compiled from one program."""

    json_file: Annotated[str, Field(alias="json")]
    p4info: str


class Tls(_Strict):
    """PEM files: TLS 1.3 to the fabric manager (docs/signalling.md)."""

    ca: str
    cert: str
    key: str


class Southbound(_Strict):
    """Everything the controller needs to know of its switches."""

    switches: tuple[Switch, ...]
    openflow_listen: Address = "127.0.0.1:6653"
    fabric_manager: Addresses | None = None
    """Where links and switches are reported (its signalling address; of several fabric managers, behind commas, that of
    whoever leads); None: nowhere."""
    tls: Tls | None = None
    insecure: bool = False
    """Plain TCP to the fabric manager also beyond the loopback interface."""
    pipeline: Pipeline | None = None
    """p4src/datacast.p4."""
    node_pipeline: Pipeline | None = None
    """p4src/node.p4, for switches with `cache: p4`."""

    @model_validator(mode="after")
    def _check(self) -> Southbound:
        named: tuple[tuple[str, list[object]], ...] = (
            ("name", [s.name for s in self.switches]),
            ("datapath id", [s.openflow.dpid for s in self.switches if s.openflow]),
            ("P4Runtime device", [(s.p4runtime.address, s.p4runtime.device_id) for s in self.switches if s.p4runtime]),
        )
        for what, keys in named:
            twice = {key for key in keys if keys.count(key) > 1}
            if twice:
                raise ValueError(f"{what} {twice.pop()} is claimed by two switches")
        managers = (self.fabric_manager or "localhost").split(",")
        if self.tls is None and not self.insecure and not all(map(is_local, managers)):
            raise ValueError(f"plain TCP to the fabric manager at {self.fabric_manager} is refused: give tls (ca, "
                             "cert, key; made by `datacast certs`), or insecure: true where all is trusted")
        if self.pipeline is None and any(s.p4runtime and not s.serves for s in self.switches):
            raise ValueError("P4Runtime switches need `pipeline`: json and p4info, as `make p4` writes them")
        if self.node_pipeline is None and any(s.serves for s in self.switches):
            raise ValueError("switches with `cache: p4` need `node_pipeline`: json and p4info, made by `make p4`")
        return self

    def switch(self, name: str) -> Switch:
        """Raises SwitchError for an unknown name."""
        for switch in self.switches:
            if switch.name == name:
                return switch
        raise SwitchError("unknown_switch", f"no switch {name!r} is configured", what=name)


def parse(data: Any, where: str = "") -> Southbound:
    """Check a configuration. Raises SwitchError that names the key at fault."""
    try:
        return Southbound.model_validate(data)
    except ValidationError as error:
        path, text = first_error(error, words=SAID, form=lambda key: PATTERNS.get(key, ADDRESS))
        raise ConfigError(text, what=path, where=where) from error


def load(path: str | Path) -> Southbound:
    """Read a YAML file. Raises SwitchError."""
    try:
        data = yaml_file.read(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", what=str(path)) from error
    except yaml_file.YamlError as error:
        raise ConfigError(str(error), what=str(path), where=str(path)) from error
    return parse(data, where=str(path))

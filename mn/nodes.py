"""The kinds of nodes. They are Mininet's, with a place in the fabric; the network starts what runs in them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

from mininet.node import Controller, Host, Node, Switch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from datacast.lab.errors import LabError
from datacast.lab.plan import MTU_MAX, MTU_MIN, QUEUE_MAX, QUEUE_MIN
from datacast.services.validation import first_error

Port = Annotated[int, Field(ge=1, le=65535)]


@dataclass(frozen=True)
class Settings:
    """Of a whole fabric."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    """`mn` makes numbers of digits, and leaves the rest text."""

    rate: str = "100mbit"
    """Of links that say nothing themselves."""
    mtu: Annotated[int, Field(ge=MTU_MIN, le=MTU_MAX)] = 9000
    queue: Annotated[int, Field(ge=QUEUE_MIN, le=QUEUE_MAX)] = 100
    """Packets per port."""
    lab: str = "mininet"
    """Name by which `datacast` commands find it (DATACAST_LAB)."""
    rest_port: Port = 7580
    fabric_port: Port = 7501
    """Both on loopback."""
    work: str | None = None
    """Folder for received files; by default in memory."""
    realtime: bool = False
    """Datacast's daemons run before everything else on the machine, as the lab's do."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Settings:
        """Takes them out of what a script or `mn` gives a controller. Raises LabError."""
        own = inspect.signature(Controller).parameters
        told = {name: given.pop(name) for name in list(given) if name not in own}
        try:
            return SETTINGS.validate_python(told)
        except ValidationError as error:
            where, text = first_error(error)
            remedy = "there are " + ", ".join(field.name for field in fields(cls))
            raise LabError(f"a setting of the controller, {text}", what=where, remedy=remedy) from error


SETTINGS = TypeAdapter(Settings)


class DatacastHost(Host):  # type: ignore[misc]
    """A host with an agent. `forwards`: it passes on what is for others, frames and IP, as in BCube; without it, a host
    with more ports than one does. Received files lie in `folder`."""

    def __init__(self, name: str, forwards: bool | None = None, **params: Any) -> None:
        super().__init__(name, **params)
        self.forwards = forwards
        self.folder: Path | None = None


class DatacastSwitch(Switch):  # type: ignore[misc]
    """`datacast-switch`: DPDK, forwards and caches. All share a namespace, so that few processes serve many."""

    dataplane = "dpdk"

    def __init__(self, name: str, room: Node | None = None, **params: Any) -> None:
        self.room = room
        super().__init__(name, **{**params, "inNamespace": room is None})

    def startShell(self, mnopts: str | None = None) -> None:
        """In the namespace of the room: mnexec -a."""
        super().startShell(mnopts if self.room is None else f"-cda{self.room.pid}")

    def defaultIntf(self) -> Any:
        return Node.defaultIntf(self)

    def start(self, controllers: list[Controller]) -> None:
        """The network has started it together with the others."""
        if self.room is None:
            raise TypeError(f"switch {self.name}: build the network with datacast.mininet.DatacastNet")


class DatacastOVS(DatacastSwitch):
    """Open vSwitch, programmed by Datacast's controller, with a cache appliance beside it."""

    dataplane = "ovs"


class DatacastBmv2(DatacastSwitch):
    """bmv2, programmed over P4Runtime, with a cache appliance beside it."""

    dataplane = "bmv2"


class DatacastController(Controller):  # type: ignore[misc]
    """Stands for fabric manager, masters and controller, and carries the settings of the fabric:
    `mn --controller datacast,rate=50mbit,mtu=1500`."""

    def __init__(self, name: str, **params: Any) -> None:
        self.settings = Settings.of(params)
        super().__init__(name, **{**params, "port": self.settings.rest_port})

    def checkListening(self) -> None:
        """The fabric looks for itself whether its ports are free, and says who has them."""

    def start(self) -> None:
        """The network has started it."""

    def stop(self, *args: Any, **kwargs: Any) -> None:
        Node.stop(self, *args, **kwargs)

    @classmethod
    def isAvailable(cls) -> bool:
        return True


hosts = {"datacast": DatacastHost}
switches = {"datacast": DatacastSwitch, "datacast-ovs": DatacastOVS, "datacast-bmv2": DatacastBmv2}
controllers = {"datacast": DatacastController}

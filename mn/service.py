"""`net.datacast`: the fabric that runs in a Mininet network, and one call to deliver a file."""

from __future__ import annotations

import atexit
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from datacast.controller.api.records import GroupSummary
from datacast.fabric_manager.api import GroupOptions
from datacast.lab import run as lab_run
from datacast.lab.errors import LabError
from datacast.lab.faults import parse_faults
from datacast.lab.report import Report

if TYPE_CHECKING:
    from mininet.node import Host

    from datacast.lab.lab import Lab


@dataclass(frozen=True, repr=False)
class Delivery:
    """What came of one file. `report` is the lab's (lab/README.md)."""

    ok: bool
    """Every receiver has the file, whole and with the right SHA-256."""
    finish_s: float | None
    ideal_s: float | None
    files: dict[str, Path]
    """Per receiver, where it lies."""
    report: Report

    def __str__(self) -> str:
        report = self.report
        if not self.ok:
            good = sum(receiver.sha256_ok for receiver in report.receivers.values())
            failures = [f"{name}: {r.error.message}" for name, r in report.receivers.items() if r.error]
            why = report.error.message if report.error else next(iter(failures), report.state)
            return f"NOT delivered: {good} of {len(self.files)} have it: {why}"
        if self.finish_s is None or self.ideal_s is None:
            return f"delivered to {len(self.files)}"  # nothing, in no time
        stress = f", link stress {report.link_stress:.3f}" if report.link_stress is not None else ""
        return (
            f"delivered to {len(self.files)} in {self.finish_s:.2f} s (ideal {self.ideal_s:.2f} s) "
            f"over {report.trees.count} trees{stress}"
        )

    def __repr__(self) -> str:
        """What `mn` prints of `py net.datacast.send(…)`."""
        return f"<{self}>"


class Datacast:
    """The fabric of a network that is up."""

    def __init__(self, lab: Lab, dataplane: str, folder: TemporaryDirectory[str]) -> None:
        self.lab = lab
        self.rest = lab.rest
        """The REST API, and the console."""
        self._dataplane = dataplane
        self._folder = folder

    def open(self) -> None:
        """Start every daemon. Raises LabError; `close` is due in any case, and comes with the program's end, too: `mn`
        and many a script end by Ctrl-C without a `net.stop()`."""
        atexit.register(self.close)
        self.lab.__enter__()
        assert self.lab.state is not None
        self.lab.state.paths.append(self._folder.name)  # should this process be killed
        self.lab.up()

    def close(self) -> None:
        self.lab.__exit__(None, None, None)
        self._folder.cleanup()
        atexit.unregister(self.close)

    @property
    def token(self) -> str:
        return self.lab.credentials.token

    def send(
        self,
        source: str | Host,
        path: str | Path,
        receivers: Iterable[str | Host],
        dest: str | None = None,
        faults: Iterable[str] = (),
        **options: Any,
    ) -> Delivery:
        """Deliver a file and wait for the end.

        Parameters
        ----------
        source, receivers
            Hosts, or their names.
        path
            The file, seen from anywhere: Mininet's hosts share the file system.
        dest : str
            Name under which it lies in each receiver's folder; the file's own by default.
        faults : iterable of str
            What to break meanwhile, such as "link s1:0 down at 1s" (lab/README.md).
        **options
            As `options` of `POST /groups`: trees=1, cache_bytes=0, credits=64, …

        Raises
        ------
        LabError
            No such host or file; the controller refused.
        """
        for name, value in (("receivers", receivers), ("faults", faults)):
            if isinstance(value, str):  # each letter would be one
                raise LabError(f"{name} is a list, not {value!r}", what=name, remedy=f"give [{value!r}]")
        path = Path(path)
        dest = dest or path.name
        graph = self.lab.graph
        transfer = lab_run.Transfer(
            source=str(source),
            receivers=tuple(map(str, receivers)),
            file=path,
            options=_options(options),
            faults=parse_faults(list(faults), graph, self._dataplane),
        )
        transfer = lab_run.settle(graph, transfer)
        report = lab_run.send(self.lab, transfer, lab_run.Quiet(), dest)
        return Delivery(
            ok=report.ok,
            finish_s=report.finish_s,
            ideal_s=report.ideal_s,
            files={host: self.lab.host_folder(host) / dest for host in transfer.receivers or ()},
            report=report,
        )

    def groups(self) -> list[GroupSummary]:
        """All groups, as the REST API tells them."""
        return lab_run.get(self.lab, list[GroupSummary], "/groups")


def _options(given: dict[str, Any]) -> GroupOptions:
    """Raises LabError."""
    names = [one.name for one in fields(GroupOptions)]
    if odd := [name for name in given if name not in names]:
        raise LabError(f"a group has no option {odd[0]!r}", what=odd[0], remedy=f"there are {', '.join(names)}")
    return GroupOptions(**given)

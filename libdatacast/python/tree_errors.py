"""What may be wrong with a question about trees; for `datacast.core.trees`, which names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import DatacastError
from .lists import few

if TYPE_CHECKING:
    from .trees import TreeSet


class TreeError(DatacastError):
    """A question about trees that makes no sense; `what` names the culprit, `code` is stable, `status` HTTP's."""

    code = "trees"
    status = 422


class UnknownNode(TreeError):
    """No such node in the graph."""

    code = "unknown_node"


class MemberError(TreeError):
    """A group that is none: empty, a member twice, the source among the receivers, a switch as a member."""

    code = "bad_member"


class LinkError(TreeError):
    """No such link, or one that the engine cannot use."""

    code = "bad_link"


class Unreachable(TreeError):
    """Some receivers are cut off. `receivers` lists them, `trees` is the TreeSet of the others, or None."""

    code = "unreachable"
    status = 0

    def __init__(self, receivers: list[str], trees: TreeSet | None) -> None:
        super().__init__(f"no path over links that are up to: {few(receivers)}", what=",".join(receivers))
        self.receivers = receivers
        self.trees = trees

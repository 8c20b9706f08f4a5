"""Names of what is kept elsewhere: a container image (`oci://`), files of a model hub (`hf://`). Each becomes URLs.

An agent fetches ranges of URLs and nothing else; what a name means is found out once, here, before a group begins. What
comes out is pinned: an image by the digests of its layers, a hub's file by the commit that its revision meant. Where
the origin tells a digest it goes along, and receivers check it.

Who asks here may have other rights than those who fetch: `HF_TOKEN`, and what `docker login` has left in
~/.docker/config.json. Neither goes any further; hosts that fetch have their own (--origins).
"""

from __future__ import annotations

from .hub import of_hub
from .parts import Named
from .registry import image

SCHEMES = ("oci://", "hf://")


def resolve(name: str, platform: str = "linux/amd64") -> Named:
    """Ask whoever knows. Raises OriginError."""
    return image(name, platform) if name.startswith("oci://") else of_hub(name)

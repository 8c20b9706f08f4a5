"""Tokens and certificates after a loss of power: what was promised holds, what was revoked stays revoked."""

from __future__ import annotations

import os
from pathlib import Path

import disk
from witness import Witness

from datacast.services import tokens
from datacast.services.authority import Authority, AuthorityError, Identity, read_certificate

CUTS = int(os.environ.get("DATACAST_CUTS", "300"))
TOKENS = """
from pathlib import Path
from datacast.services import tokens
path = Path(ROOT) / 'tokens.json'
for n in range(6):
    token, _ = tokens.create(path, f't{n}', 'viewer')
    mark(f'made {token.id}')
    if n % 2:
        mark(f'revoking {token.id}')
        tokens.revoke(path, token.id)
        mark(f'revoked {token.id}')
"""
AUTHORITY = """
from pathlib import Path
from datacast.services.authority import Authority, Identity
authority = Authority.create(Path(ROOT))
mark('authority')
for replace in (False, True):
    authority.issue(Identity.parse('agent/00'), replace=replace)
    mark(f'issued {replace}')
"""


def told(marks: list[str], what: str) -> set[str]:
    return {line.split()[1] for line in marks if line.split()[0] == what}


def test_a_token_lives_from_its_promise_to_its_revocation(witness: Witness, tmp_path: Path):
    ops = witness.python(TOKENS)
    for number, (moment, state, rng) in enumerate(disk.cuts(ops, CUTS, 2)):
        where = f"cut {number} after {moment} operations"
        content = state.cut(rng).get(str(witness.root / "tokens.json"))
        made, going, gone = (told(state.marks, what) for what in ("made", "revoking", "revoked"))
        if content is None:
            assert not made, f"{where}: the file is gone"
            continue
        (tmp_path / "tokens.json").write_bytes(content)
        found = {token.id for token in tokens.read(tmp_path / "tokens.json")}
        assert made - going <= found, f"{where}: a token that was handed out is not known"
        assert not gone & found, f"{where}: a revoked token is valid again"


def test_a_certificate_that_was_issued_is_there_with_its_key(witness: Witness, tmp_path: Path):
    ops = witness.python(AUTHORITY)
    for number, (moment, state, rng) in enumerate(disk.cuts(ops, CUTS, 3)):
        where = f"cut {number} after {moment} operations"
        folder = witness.lay_out(state.cut(rng), tmp_path / "cut")
        for path in folder.glob("*.pem"):
            read_certificate(path)  # whole, or not there
        try:
            authority = Authority.open(folder)
        except AuthorityError:
            assert "authority" not in state.marks, f"{where}: the authority cannot be opened"
            continue
        if state.marks[-1:] == ["issued True"]:
            certificate, key = authority.paths(Identity.parse("agent/00"))
            assert certificate.exists() and key.exists(), f"{where}: what was issued is not there"

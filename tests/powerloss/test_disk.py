"""The model of the disk is as unkind as it says, and no unkinder."""

from __future__ import annotations

import disk
import pytest
from witness import Witness

CUTS = 400
CAREFUL = """
for n in range(5):
    part = os.open(ROOT + '/part', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(part, b'%d' % n * 2000)
    os.fsync(part)
    os.close(part)
    os.rename(ROOT + '/part', ROOT + '/file')
    folder = os.open(ROOT, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    mark(str(n))
"""


def outcomes(ops: list[disk.Op], witness: Witness) -> list[tuple[int, bytes | None]]:
    """(last version promised, -1: none; what the file holds) for every cut."""
    return [
        (int(d.marks[-1]) if d.marks else -1, d.cut(rng).get(str(witness.root / "file")))
        for _, d, rng in disk.cuts(ops, CUTS, 1)
    ]


def wrong(ops: list[disk.Op], witness: Witness) -> int:
    whole = [b"%d" % n * 2000 for n in range(5)]
    return sum(
        content not in (whole[max(promised, 0) : promised + 2] + [None] * (promised < 0))
        for promised, content in outcomes(ops, witness)
    )


def test_a_careful_writer_loses_nothing(witness: Witness):
    ops = witness.python(CAREFUL)
    assert [op.kind for op in ops[:6]] == ["C", "W", "S", "R", "D", "K"]
    assert wrong(ops, witness) == 0
    assert len({content for _, content in outcomes(ops, witness)}) == 6


@pytest.mark.parametrize("forgotten", ["    os.fsync(part)\n", "    os.fsync(folder)\n"])
def test_one_forgotten_sync_shows(witness: Witness, forgotten: str):
    assert wrong(witness.python(CAREFUL.replace(forgotten, "")), witness) > 20


DEEP = """
os.mkdir(ROOT + '/deep')
file = os.open(ROOT + '/deep/file', os.O_WRONLY | os.O_CREAT)
os.write(file, b'0' * 2000)
os.fsync(file)
for path in (ROOT + '/deep', ROOT):
    folder = os.open(path, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
mark('0')
"""


@pytest.mark.parametrize(("synced", "lost"), [("(ROOT + '/deep', ROOT)", False), ("(ROOT + '/deep',)", True)])
def test_a_file_is_there_when_its_folder_is(witness: Witness, synced: str, lost: bool):
    ops = witness.python(DEEP.replace("(ROOT + '/deep', ROOT)", synced))
    ends = [d.cut(rng) for _, d, rng in disk.cuts(ops, CUTS, 1) if d.marks]
    assert ends and all(found in ({}, {str(witness.root / "deep" / "file"): b"0" * 2000}) for found in ends)
    assert ({} in ends) is lost


def test_a_file_renamed_before_its_bytes_are_safe_may_be_empty_or_torn(witness: Witness):
    ops = witness.python(CAREFUL.replace("    os.fsync(part)\n", ""))
    sizes = {len(content) for _, content in outcomes(ops, witness) if content is not None}
    assert 0 in sizes and 2000 in sizes and any(0 < size < 2000 for size in sizes)


def test_a_journal_that_ends_within_an_entry_is_refused(witness: Witness):
    witness.python(CAREFUL)
    witness.journal.write_bytes(witness.journal.read_bytes()[:-1])
    with pytest.raises(ValueError, match="within an entry"):
        disk.read(witness.journal)

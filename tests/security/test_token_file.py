"""The file of tokens: what it holds, who may change it, and when it is read."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from commands import command

from datacast.services import durable, tokens

NO_TOKEN_FILES = [
    "",
    "[]",
    "{}",
    "[" * 5000,
    "\0",
    '{"tokens": 1}',
    '{"tokens": [1]}',
    '{"tokens": [{"id": 1}]}',
    '{"tokens": [], "a": 1}',
]


@pytest.mark.parametrize("content", NO_TOKEN_FILES)
def test_files_that_are_no_token_files(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(tokens.TokenError, match="is no token file"):
        tokens.read(path)


def test_the_file_holds_no_token_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, secret = tokens.create(path, "me", "admin", days=1)
    assert secret not in path.read_text() and path.stat().st_mode & 0o777 == 0o600
    assert tokens.digest(secret) == json.loads(path.read_text())["tokens"][0]["sha256"] == token.sha256
    assert len(secret) > 40 and tokens.create(path, "", "viewer")[1] != secret
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.root
def test_root_looks_after_the_tokens_of_a_controller_that_runs_as_a_user_of_its_own(tmp_path: Path) -> None:
    """As the packages have it: /etc is root's, the file the user's alone. It stays so, or the controller could not read
    what root has revoked."""
    path = tmp_path / "tokens.json"
    token, _ = tokens.create(path, "first", "admin")
    os.chown(path, 65534, 65534)
    assert command("token", "list", str(path))[:2] == (0, f"{token.id}  admin     for ever  first\n")
    for change in (("create", str(path)), ("revoke", str(path), token.id)):
        code, _, told = command("token", *change)
        left = path.stat()
        assert code == 0 and (left.st_uid, left.st_gid, left.st_mode & 0o777) == (65534, 65534, 0o600), told
    with pytest.raises(tokens.TokenError, match="may be changed by others"):
        tokens.TokenFile(path)  # of a controller that is root: its tokens are no user's to give


def test_a_file_of_tokens_has_bounds_and_says_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens.json"
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    for _ in range(2):
        tokens.create(path, "", "viewer")
    with pytest.raises(tokens.TokenError, match="holds 2 tokens, that is the most") as full:
        tokens.create(path, "", "viewer")
    assert full.value.remedy == "revoke some" and len(tokens.read(path)) == 2
    text = path.read_text()
    path.write_text(text + " " * (tokens.BYTES_MAX - len(text)))
    assert len(tokens.read(path)) == 2
    path.write_text(text + " " * (tokens.BYTES_MAX + 1 - len(text)))
    with pytest.raises(tokens.TokenError, match=f"larger than {tokens.BYTES_MAX} bytes"):
        tokens.read(path)
    with pytest.raises(tokens.TokenError, match=r"cannot write .*tokens\.json/inner"):
        tokens.create(path / "inner", "", "viewer")
    for folder in (Path("/"), Path(""), tmp_path):
        with pytest.raises(tokens.TokenError, match="is a folder"):
            tokens.create(folder, "", "viewer")
    path.unlink()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tokens.durable, "write", full_disk)
    with pytest.raises(tokens.TokenError, match=r"cannot write .*tokens\.json: No space left"):
        tokens.create(path, "", "viewer")


def test_who_holds_the_lock_for_long_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens.json"
    tokens.create(path, "", "viewer")
    monkeypatch.setattr(durable, "LOCK_S", 0.05)
    with open(tmp_path / ".tokens.json.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(tokens.TokenError, match=r"another process .* has .*\.tokens\.json\.lock for more than"):
            tokens.create(path, "", "viewer")
    tokens.create(path, "", "viewer")
    assert len(tokens.read(path)) == 2


def test_a_time_without_its_zone_is_none(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens.create(path, "", "viewer", days=1)
    [row] = json.loads(path.read_text())["tokens"]
    path.write_text(json.dumps({"tokens": [row | {"expires": "2027-01-01T00:00:00"}]}))
    with pytest.raises(tokens.TokenError, match="is not one of `datacast token`"):
        tokens.read(path)


def test_a_link_in_place_of_a_token_file_is_not_taken_for_it(tmp_path: Path) -> None:
    """Of a token that was revoked by it the controller, which read the file itself, knew nothing."""
    path, link = tmp_path / "tokens.json", tmp_path / "link.json"
    made, secret = tokens.create(path, "x", "admin")
    link.symlink_to("tokens.json")
    for change in (lambda: tokens.revoke(link, made.id), lambda: tokens.create(link, "y", "viewer")):
        with pytest.raises(tokens.TokenError, match=r"is a link to tokens\.json"):
            change()
    assert link.is_symlink() and tokens.TokenFile(link).find(secret) == made, "it may be read by it"


@pytest.mark.root
def test_a_token_file_that_was_another_s_for_a_moment_is_read_when_it_is_not(tmp_path: Path) -> None:
    """An editor of root's made it anew, and root gave it back: neither changes when it was written."""
    path = tmp_path / "tokens.json"
    made, secret = tokens.create(path, "x", "admin")
    file = tokens.TokenFile(path)
    os.chown(path, 65534, 65534)
    tokens.revoke(path, made.id)
    assert file.find(secret) == made, "the tokens stay as they were"
    os.chown(path, 0, 0)
    assert file.find(secret) is None


def test_a_token_that_was_revoked_while_no_file_could_be_opened_is_refused_when_one_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    made, secret = tokens.create(path, "x", "admin")
    file = tokens.TokenFile(path)
    tokens.revoke(path, made.id)

    def none_left(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "open", none_left, raising=False)
        assert [file.find(secret) for _ in range(3)] == [made] * 3
    assert file.find(secret) is None and caplog.text.count("Too many open files") == 1

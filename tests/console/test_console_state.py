"""What the console knows, without a browser: its own modules in node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

NODE = shutil.which("node")
CONSOLE = Path(__file__).resolve().parents[2] / "build" / "console"

pytestmark = pytest.mark.skipif(NODE is None or not (CONSOLE / "state.js").exists(), reason="no node, or not built")

WORLD = """
import { writeSync } from "node:fs";
const FAST = 100, later = setTimeout, streams = [];
let dead = false;
globalThis.setTimeout = (act, ms, ...more) => later(act, ms / FAST, ...more);
globalThis.location = { hash: "", href: "http://controller/" };
globalThis.addEventListener = () => {};
AbortSignal.timeout = (ms) => {
  const late = new AbortController();
  setTimeout(() => late.abort(new DOMException("late", "TimeoutError")), ms);
  return late.signal;
};
globalThis.EventSource = class {
  constructor() { streams.push(this); later(() => dead || this.onopen(), 1); }
  addEventListener() {}
  close() { this.closed = true; }
};
globalThis.fetch = (path, { signal } = {}) => (dead
  ? new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason)))
  : Promise.resolve({ ok: true, status: 200, text: async () => "[]", headers: new Map() }));
const until = async (what, seconds) => {
  for (let n = 0; n < seconds * 10 && !what(); n += 1) await new Promise((go) => later(go, 100 / FAST));
  return what();
};
const say = (what) => writeSync(1, `${what}\\n`);
const { connected, start } = await import(`${process.argv[1]}/state.js`);
"""


def run(script: str) -> list[str]:
    command = [str(NODE), "--input-type=module", "-e", WORLD + script + "\nprocess.exit();", "--", str(CONSOLE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_controller_that_is_gone_without_a_word_is_noticed_and_found_again() -> None:
    """A stream that nothing comes by is silent: the map looked fresh, and was not."""
    script = """
await start();
say(await until(() => connected.value, 5));
dead = true;
say(await until(() => !connected.value && streams[0].closed, 60));
dead = false;
say(await until(() => connected.value && streams.length > 1 && !streams.at(-1).closed, 60));
"""
    assert run(script) == ["true", "true", "true"]


def test_who_cannot_be_signed_out_is_told_so() -> None:
    """The cookie lives on: whoever sits there next is signed in."""
    script = """
const { signIn, signOut, signedIn, stays } = await import(`${process.argv[1]}/state.js`);
await start();
dead = true;
signOut();
say(await until(() => stays.value?.message.includes("still signed in") && signedIn.value, 60));
dead = false;
await signOut();
say(stays.value === null && signedIn.value === false);
stays.value = new Error("of a session that has ended by itself since");
await signIn("token");
say(stays.value === null && signedIn.value);
"""
    assert run(script) == ["true", "true", "true"]


def test_a_question_that_nobody_answers_ends() -> None:
    script = """
const { ask } = await import(`${process.argv[1]}/api.js`);
dead = true;
let ended = "";
ask("hosts").catch((error) => { ended = error.name; });
await until(() => ended, 60);
say(ended);
"""
    assert run(script) == ["TimeoutError"]


def test_a_table_as_a_file_has_no_formulas_in_it() -> None:
    script = """
const { csvText } = await import(`${process.argv[1]}/api.js`);
const rows = [["=cmd|' /C calc'!A0", -1.5], ["@x", null], ["a\\"b", "+1 s"], ["\\tq", "\\r"]];
say(encodeURIComponent(csvText(["a,b", "n"], rows)));
"""
    (told,) = run(script)
    assert unquote(told) == (
        '"a,b",n\n' "'=cmd|' /C calc'!A0,-1.5\n" "'@x,\n" '"a""b",\'+1 s\n' "'\tq,\"'\r\"\n"
    )

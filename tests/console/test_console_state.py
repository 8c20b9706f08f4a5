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


def test_what_changed_between_the_list_of_groups_and_the_stream_is_known() -> None:
    """A group that ended then ran for ever on the map. Of several sites the stream says nothing: those stay."""
    script = """
const { groups } = await import(`${process.argv[1]}/state.js`);
const rows = (...all) => all.map(([id, state]) => ({ id, state }));
globalThis.fetch = async (path) => {
  const told = path === "groups" ? rows(["s-1", "running"], ["g-1", "running"], ["g-2", "done"]) : [];
  return { ok: true, status: 200, text: async () => JSON.stringify(told), headers: new Map() };
};
EventSource.prototype.addEventListener = function (kind, act) { (this.heard ??= {})[kind] = act; };
await start();
streams[0].heard.groups?.({ data: JSON.stringify({ groups: rows(["g-1", "done"], ["g-3", "running"]) }) });
say([...groups.value.values()].map(({ id, state }) => `${id}:${state}`).sort().join());
"""
    assert run(script) == ["g-1:done,g-3:running,s-1:running"]


def test_groups_of_several_sites_are_looked_at_again() -> None:
    script = """
const { groups } = await import(`${process.argv[1]}/state.js`);
let state = "running", asked = 0;
globalThis.fetch = async (path) => {
  const rows = { sites: [{ name: "sfo" }], groups: [{ id: "s-1", state }, { id: "g-1", state }] }[path] ?? [];
  if (path === "groups") asked += 1;
  return { ok: true, status: 200, text: async () => JSON.stringify(rows), headers: new Map() };
};
await start();
say(await until(() => connected.value, 5));
state = "done";
say(await until(() => groups.value.get("s-1")?.state === "done", 60));
say(groups.value.get("g-1").state);
"""
    assert run(script) == ["true", "true", "running"]


def test_a_list_of_groups_tells_how_many_receivers_each_has() -> None:
    script = """
const { COLUMNS } = await import(`${process.argv[1]}/pages/groups.js`);
say(COLUMNS.find(({ name }) => name === "Receivers").of({ id: "g-1", receivers: 5 }));
"""
    assert run(script) == ["5"]


def test_what_nobody_tells_of_a_cable_s_losses_is_not_told_as_none() -> None:
    """While a group runs no receiver says what it missed of which tree: the map said `loss 0.0 %`."""
    script = """
const { told } = await import(`${process.argv[1]}/links.js`);
const links = [{ u: "h0", v: "s", rate_bps: 100 }, { u: "s", v: "h1", rate_bps: 100 }];
const trees = { 7: { arcs: [["h0", "s"], ["s", "h1"]], rate_bps: 50 } };
const of = (receivers) => told(links, [{ trees, receivers }]).map(({ load, loss }) => `${load}:${loss}`).join();
say(of({ h1: { trees: {} } }));
say(of({ h1: { trees: { 7: { data: 1000, retransmitted: 20 } } } }));
"""
    assert run(script) == ["0.5:null,0.5:null", "0.5:0.02,0.5:0"]

"""Forms of answers that several threads read for the first time at once."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from __future__ import annotations
import threading, time
import msgspec
from datacast.services.problems import formed

begun = threading.Event()

def slowly(form):
    begun.set()
    time.sleep(0.3)  # another thread's turn, while this one finds out what Inner is
    return form

class Inner(msgspec.Struct):
    x: slowly(int)

class Outer(msgspec.Struct):
    a: int
    inner: Inner

def read():
    assert formed({"a": 1, "inner": {"x": 2}}, Outer, "other").inner.x == 2

first = threading.Thread(target=read)
first.start()
assert begun.wait(60)
read()
first.join()
print("both")
"""


def test_a_form_that_another_thread_is_finding_out_is_waited_for() -> None:
    """A mirror that was asked for two layers at once died of it, and its host pulled them from the registry."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "both\n"), done.stderr

"""Builds `datacast.core._core`: the whole C core as an extension module (cffi, API mode).

What Python may call stands in cdef/*.h, read in the order of their names; every C file of the core is compiled in, so
the extension and build/libdatacast.a are the same code. setuptools finds `ffi` through setup.py.
"""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
CORE = HERE.parent
ROOT = CORE.parent

ffi = FFI()
for part in sorted((HERE / "cdef").glob("*.h")):
    ffi.cdef(part.read_text())

headers = sorted(path.name for path in (CORE / "include" / "datacast").glob("*.h"))
ffi.set_source(
    "datacast.core._core",
    "".join(f'#include "datacast/{name}"\n' for name in headers) + '#include "pybuf.h"\n',
    # Relative: setuptools wants paths below the folder of setup.py.
    sources=[str(path.relative_to(ROOT)) for path in sorted((CORE / "src").glob("*.c"))],
    include_dirs=["libdatacast/include", "libdatacast/src", "libdatacast/python"],
    depends=[str(path.relative_to(ROOT)) for path in sorted(CORE.glob("**/*.h"))],
    extra_compile_args=["-std=gnu11", "-O2", "-fno-strict-aliasing"],
)

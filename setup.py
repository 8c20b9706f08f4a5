"""Maps the folders at the root to the namespace package `datacast` (no `datacast/__init__.py`)."""

from pathlib import Path

from setuptools import find_packages, setup

FOLDERS = {
    "core": "libdatacast/python",
    "services": "services",
    "origins": "origins",
    "mininet": "mn",
    "topologies": "topologies",
    "planners": "planners",
    "lab": "lab",
    "fabric_manager": "fabric_manager",
    "master": "master",
    "controller": "controller",
    "mirror": "mirror",
    "simulation": "simulation",
    "cli": "cli",
}

package_dir, packages = {}, []
for name, folder in FOLDERS.items():
    package_dir[f"datacast.{name}"] = folder
    packages.append(f"datacast.{name}")
    packages += [f"datacast.{name}.{sub}" for sub in find_packages(folder)]

# The core's binding. `make build` compiles it in place; a wheel takes it along.
BINDING = Path("libdatacast/python/build_core.py")

setup(
    package_dir=package_dir,
    packages=packages,
    package_data={"": ["*.json", "*.graphml", "*.sql", "*.h"]},
    cffi_modules=[f"{BINDING}:ffi"] if BINDING.exists() else [],
)

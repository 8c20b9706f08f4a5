"""What a controller has in memory that knows no other sites and programs no switches."""

import subprocess
import sys


def test_a_controller_of_one_site_loads_no_numbers_and_no_graphs() -> None:
    code = (
        "import sys; from datacast.controller import main; from datacast.controller.app import make_app\n"
        "from datacast.fabric_manager.api import FabricManagerClient; make_app(FabricManagerClient('http://[::1]:1'))\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "fastapi" in loaded
    assert not loaded & {"networkx", "numpy", "cryptography", "os_ken"}

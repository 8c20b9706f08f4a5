"""One libtorrent peer of bench/peers: `torrent.py TORRENT FOLDER ADDRESS seed|leech PEER…`.

Says `ready` when the session stands, goes when a line comes, says `done` when it has everything, and stays for others.
"""

from __future__ import annotations

import sys
import time

import libtorrent as lt

PORT = 6881


def main() -> None:
    torrent, folder, address, role, *peers = sys.argv[1:]
    session = lt.session(
        {
            "listen_interfaces": f"{address}:{PORT}",
            "enable_dht": False,
            "enable_lsd": False,
            "enable_upnp": False,
            "enable_natpmp": False,
            "allow_multiple_connections_per_ip": True,
            "connection_speed": 500,
            "send_buffer_watermark": 4 << 20,
            "unchoke_slots_limit": -1,
        }
    )
    params = lt.add_torrent_params()
    params.ti = lt.torrent_info(torrent)
    params.save_path = folder
    flags = lt.torrent_flags
    params.flags = flags.paused | (flags.seed_mode if role == "seed" else flags.sequential_download)
    params.flags &= ~flags.auto_managed
    if role != "seed":
        params.flags &= ~flags.sequential_download
    handle = session.add_torrent(params)
    print("ready", flush=True)
    sys.stdin.readline()
    handle.resume()
    for peer in peers:
        handle.connect_peer((peer, PORT))
    while not handle.status().is_seeding:
        time.sleep(0.005)
    print("done", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()

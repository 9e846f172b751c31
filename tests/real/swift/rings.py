"""Writes the rings of a Swift with one disk: rings.py FOLDER ACCOUNT_PORT CONTAINER_PORT OBJECT_PORT."""
import sys

from swift.common.ring import RingBuilder

folder, *ports = sys.argv[1:]
for name, port in zip(("account", "container", "object"), map(int, ports)):
    builder = RingBuilder(2, 1, 0)
    builder.add_dev(
        {
            "region": 1,
            "zone": 1,
            "ip": "127.0.0.1",
            "port": port,
            "replication_ip": "127.0.0.1",
            "replication_port": port,
            "device": "disk",
            "weight": 1.0,
            "meta": "",
        }
    )
    builder.rebalance()
    builder.get_ring().save(f"{folder}/{name}.ring.gz")

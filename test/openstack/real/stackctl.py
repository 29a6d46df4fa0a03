#!/usr/bin/python3
"""Talks to the test cloud's APIs.

  stackctl.py catalog | wait-services | services | seed | openrc      (used by up.sh, status.sh)
  stackctl.py bench [N] [PARALLEL]            boot N servers, latencies, delete them
  stackctl.py versions                        microversions and neutron extensions
  stackctl.py fault NAME [ARG...]             see `stackctl.py fault list`
  stackctl.py clean                           delete all servers, floating IPs, ports, volumes of the demo project
"""
import sys

import requests

from api import ApiError
from bench import bench, clean, versions
from catalog import catalog, services, wait_services
from faults import fault
from seed import openrc, seed

COMMANDS = {"catalog": catalog, "wait-services": wait_services, "services": services, "seed": seed, "openrc": openrc,
            "bench": bench, "clean": clean, "versions": versions, "fault": fault}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        raise SystemExit(__doc__)
    try:
        sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]) or 0)
    except (ApiError, requests.RequestException) as e:
        raise SystemExit("stackctl %s: %s" % (sys.argv[1], e))

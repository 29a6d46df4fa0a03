#!/usr/bin/python3
"""Stops one service after the other and checks what a client sees, and that all is well when it is back.

Run it on a cloud that nobody else is using:  . ./env.sh; /usr/bin/python3 outages.py
"""
import os
import subprocess

import requests

from api import ApiError, admin, demo, wait
from bench import boot, env_ids, is_gone, wait_status
from faults import fault

HERE = os.path.dirname(os.path.abspath(__file__))


def run(script, *args):
    return subprocess.run([os.path.join(HERE, script), *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def down(name):
    run("down.sh", name)


def up():
    if run("up.sh", "--no-seed"):
        raise SystemExit("up.sh failed")


def outcome(call):
    """(HTTP status or the exception's name, answer) of a call."""
    try:
        return 200, call()
    except ApiError as e:
        return e.code, e.body
    except requests.RequestException as e:
        return type(e).__name__, str(e)


class Outages:
    def __init__(self):
        fault("clear")
        self.demo, self.made, self.bad = demo(), [], 0
        self.ids = env_ids(self.demo)

    def check(self, what, holds, note=""):
        self.bad += not holds
        print("%-4s %s %s" % ("ok" if holds else "FAIL", what, str(note)[:200]), flush=True)

    def boot(self, name):
        server = boot(self.demo, self.ids, name)
        self.made.append(server)
        return server

    def list(self):
        return outcome(lambda: self.demo.get("compute", "/servers"))[0]

    def nova_api(self):
        down("nova-api")
        self.check("nova-api down: the connection is refused", self.list() == "ConnectionError")
        up()
        self.check("nova-api up again", self.list() == 200)

    def neutron(self):
        down("neutron")
        code, body = outcome(lambda: self.boot("outage-neutron"))
        self.check("neutron down: a boot fails", code == 500, "%s %s" % (code, body))
        up()

    def keystone(self):
        down("keystone")
        self.check("keystone down: a token that is known goes on working", self.list() == 200)
        self.check("keystone down: there is no new token", outcome(demo)[0] == "ConnectionError")
        up()

    def placement(self):
        down("placement")
        server = self.boot("outage-placement")
        shown = wait_status(self.demo, server)
        self.check("placement down: a boot is accepted and goes to ERROR", shown["status"] == "ERROR", shown.get("fault", {}).get("message"))
        up()

    def compute(self):
        server = self.boot("outage-compute")
        wait_status(self.demo, server)
        a = admin()
        host = a.get("compute", "/servers/" + server)["server"]["OS-EXT-SRV-ATTR:host"]
        down(host)
        wait("the host is seen down", lambda: a.get("compute", "/os-services?binary=nova-compute&host=" + host)["services"][0]["state"] == "down", 60)
        self.demo.delete("compute", "/servers/" + server)
        wait("the server is gone", lambda: is_gone(self.demo, server), 5)
        self.check("a host down: its server is deleted without it, at once", True)
        up()

    def clean(self):
        for server in self.made:
            self.demo.delete("compute", "/servers/" + server)
        for server in self.made:
            wait("gone", lambda: is_gone(self.demo, server), 120)


def main():
    o = Outages()
    for outage in (o.nova_api, o.neutron, o.keystone, o.placement, o.compute, o.clean):
        outage()
    return o.bad


if __name__ == "__main__":
    raise SystemExit(main())

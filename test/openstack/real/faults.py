"""Faults on command: what a real cloud does to its clients on a bad day. `clear` undoes all of them."""
import json
import os

import requests

from api import CINDER, FAULTCTL, HOST, NAMES, STATE, admin

LIST = """limit WHAT N            at most N of WHAT in project demo:
                          instances, cores, ram, server_groups, server_group_members   nova: 403 Quota exceeded
                          port, floatingip, security_group                             neutron: 409 OverQuota
                          volumes, gigabytes                                           cinder: 413
disable HOST            no new servers on HOST; all of them disabled: every boot is NoValidHost
enable HOST             the other way
fail SERVER_ID          put a server in ERROR
lock SERVER_ID          lock a server as admin: its owner's delete gets 409
unlock SERVER_ID        the other way
forbid SERVICE RULE     deny a policy rule to everyone but admins (403), at once, without a restart:
                          forbid nova os_compute_api:servers:create | forbid neutron create_port
proxy JSON              rules for faultproxy.py, for instance
                          [{"service":"compute","method":"POST","path":"/servers$","status":429,"retry_after":2,"times":3}]
                          [{"service":"network","delay_ms":3000}]   [{"service":"compute","probability":0.2,"status":503}]
                          [{"service":"compute","drop":"before"}]   drop "after": request is carried out, reply is lost
clear                   back to normal"""

NOVA = ("instances", "cores", "ram", "server_groups", "server_group_members")
NEUTRON = ("port", "floatingip", "security_group")
VOLUMES = ("volumes", "gigabytes")


def project(a):
    return a.get("identity", "/projects?name=demo")["projects"][0]["id"]


def limit(a, what, n):
    pid, n = project(a), int(n)
    if what in NOVA:
        return a.put("compute", "/os-quota-sets/" + pid, {"quota_set": {what: n, "force": True}})
    if what in NEUTRON:
        return a.put("network", "/quotas/" + pid, {"quota": {what: n}})
    if what in VOLUMES:
        return a.put("volumev3", "/%s/os-quota-sets/%s" % (a.info["project"]["id"], pid), {"quota_set": {what: n}})
    raise SystemExit("no limit is known for %s" % what)


def set_host(status):
    def change(a, host):
        for s in a.get("compute", "/os-services?binary=nova-compute&host=" + host)["services"]:
            body = {"status": status}
            if status == "disabled":
                body["disabled_reason"] = "fault injection"
            a.put("compute", "/os-services/" + s["id"], body)
    return change


def act(body):
    return lambda a, server: a.post("compute", "/servers/%s/action" % server, body)


def policy_file(service):
    return os.path.join(STATE, "etc", service + "-policy.yaml")


def write_policy(service, rules):
    path = policy_file(service)
    with open(path + ".new", "w") as f:
        json.dump(rules, f)               # JSON is YAML
    os.replace(path + ".new", path)


def forbid(a, service, rule):
    with open(policy_file(service)) as f:
        rules = json.load(f)
    rules[rule] = "role:admin"
    write_policy(service, rules)
    return rules


def proxy(a, rules):
    requests.put("http://%s:%d/rules" % (HOST, FAULTCTL), json=json.loads(rules), timeout=10).raise_for_status()


def clear(a):
    pid = project(a)
    a.delete("compute", "/os-quota-sets/" + pid)
    a.delete("network", "/quotas/" + pid)
    if CINDER:
        a.delete("volumev3", "/%s/os-quota-sets/%s" % (a.info["project"]["id"], pid))
    for s in a.get("compute", "/os-services?binary=nova-compute")["services"]:
        if s["status"] != "enabled":
            a.put("compute", "/os-services/" + s["id"], {"status": "enabled"})
    for service in NAMES.values():
        path = policy_file(service)
        if os.path.exists(path) and open(path).read().strip() != "{}":
            write_policy(service, {})
    try:
        proxy(a, "[]")
    except requests.ConnectionError:      # there is no proxy
        pass


FAULTS = {"limit": limit, "disable": set_host("disabled"), "enable": set_host("enabled"),
          "fail": act({"os-resetState": {"state": "error"}}), "lock": act({"lock": None}), "unlock": act({"unlock": None}),
          "forbid": forbid, "proxy": proxy, "clear": clear}


def fault(name="list", *args):
    if name == "list":
        print(LIST)
        return
    if name not in FAULTS:
        raise SystemExit("unknown fault %s" % name)
    print(FAULTS[name](None if name == "proxy" else admin(), *args) or "done")

"""Keystone's catalog, users and roles, and whether every service has reported in."""
from api import (ADMIN_PW, CINDER, COMPUTES, DEMO_PW, FAULT_REGION, NAMES, OFFSET, PATHS, PORTS, PW, REGION, HOST,
                 admin, log, wait)


def find_or_create(c, svc, coll, key, body, **match):
    q = "&".join("%s=%s" % kv for kv in match.items())
    found = c.get(svc, "/%s?%s" % (coll, q))[coll]
    return found[0] if found else c.post(svc, "/" + coll, {key: body})[key]


def catalog():
    c = admin()
    dom = "default"
    roles = {r["name"]: r["id"] for r in c.get("identity", "/roles")["roles"]}
    for name in ("service", "member", "reader"):
        if name not in roles:
            roles[name] = c.post("identity", "/roles", {"role": {"name": name}})["role"]["id"]

    def project(name, domain=dom):
        return find_or_create(c, "identity", "projects", "project", {"name": name, "domain_id": domain},
                              name=name, domain_id=domain)["id"]

    def user(name, password, domain=dom, **extra):
        return find_or_create(c, "identity", "users", "user",
                              dict(extra, name=name, password=password, domain_id=domain),
                              name=name, domain_id=domain)["id"]

    def grant(kind, scope, uid, role):
        c.put("identity", "/%s/%s/users/%s/roles/%s" % (kind, scope, uid, roles[role]))

    service = project("service")
    for name in ("glance", "placement", "nova", "neutron", "cinder"):
        uid = user(name, PW)
        grant("projects", service, uid, "admin")
        grant("projects", service, uid, "service")
    demo_p, other_p = project("demo"), project("other")
    demo_u, other_u = user("demo", DEMO_PW, default_project_id=demo_p), user("other", DEMO_PW)
    ro = user("demo-reader", DEMO_PW)
    for role in ("member", "reader"):
        grant("projects", demo_p, demo_u, role)
        grant("projects", other_p, other_u, role)
    grant("projects", demo_p, ro, "reader")
    # a second domain, with its own admin: domain-scoped tokens and non-default domains
    corp = find_or_create(c, "identity", "domains", "domain", {"name": "corp"}, name="corp")["id"]
    corp_p, corp_u = project("corp-project", corp), user("corp-user", DEMO_PW, corp)
    corp_a = user("corp-admin", DEMO_PW, corp)
    grant("projects", corp_p, corp_u, "member")
    grant("domains", corp, corp_a, "admin")
    grant("projects", corp_p, corp_a, "admin")

    for region in (REGION, FAULT_REGION):
        if not [r for r in c.get("identity", "/regions")["regions"] if r["id"] == region]:
            c.post("identity", "/regions", {"region": {"id": region}})
    services = {s["type"]: s["id"] for s in c.get("identity", "/services")["services"]}
    endpoints = {(e["service_id"], e["interface"], e["region"]): e
                 for e in c.get("identity", "/endpoints")["endpoints"]}
    for typ, name in NAMES.items():
        if typ == "volumev3" and not CINDER:
            continue
        if typ not in services:
            services[typ] = c.post("identity", "/services", {"service": {"type": typ, "name": name}})["service"]["id"]
        for region, off in ((REGION, 0), (FAULT_REGION, OFFSET)):
            url = "http://%s:%d%s" % (HOST, PORTS[typ] + off, PATHS[typ])
            for iface in ("public", "internal", "admin"):
                old = endpoints.get((services[typ], iface, region))
                if not old:
                    c.post("identity", "/endpoints", {"endpoint": {
                        "service_id": services[typ], "interface": iface, "region_id": region, "url": url}})
                elif old["url"] != url:
                    c.patch("identity", "/endpoints/" + old["id"], {"endpoint": {"url": url}})
    log("keystone catalog complete")


def service_rows(c):
    rows = [(s["binary"], s["host"], s["zone"], s["status"], s["state"])
            for s in c.get("compute", "/os-services")["services"]]
    rows += [(a["binary"], a["host"], a.get("availability_zone") or "-",
              "enabled" if a["admin_state_up"] else "disabled", "up" if a["alive"] else "down")
             for a in c.get("network", "/agents")["agents"]]
    if CINDER:
        rows += [(s["binary"], s["host"], s["zone"], s["status"], s["state"])
                 for s in c.get("volumev3", "/%s/os-services" % c.info["project"]["id"])["services"]]
    return rows


def services():
    for r in service_rows(admin()):
        print("%-28s %-16s %-10s %-9s %s" % r)


def wait_services():
    c = admin()

    def all_up():
        up = {(b, h) for b, h, _, _, state in service_rows(c) if state == "up"}
        want = {("nova-compute", "compute-%d" % i) for i in range(1, COMPUTES + 1)}
        want |= {("neutron-openvswitch-agent", "compute-%d" % i) for i in range(1, COMPUTES + 1)}
        want.add(("neutron-l3-agent", "network-1"))
        kinds = {b for b, _ in up}
        missing = want - up
        for b in ("nova-scheduler", "nova-conductor") + (("cinder-volume", "cinder-scheduler") if CINDER else ()):
            if b not in kinds:
                missing.add((b, "*"))
        if CINDER and not c.get("volumev3", "/%s/scheduler-stats/get_pools" % c.info["project"]["id"])["pools"]:
            missing.add(("cinder pool", "*"))
        all_up.missing = missing
        return not missing

    try:
        wait("every service to report in", all_up, 180, 1)
    except SystemExit:
        log("missing: %s" % sorted(getattr(all_up, "missing", [])))
        raise
    log("all compute services and network agents are up")

"""Measurements of the test cloud itself, so that what a client reaches can be set against them."""
import concurrent.futures as cf
import os
import threading
import time

import requests

from api import CINDER, DEMO_PW, HOST, PORTS, admin, demo, get_token, pw_auth, wait


def env_ids(c):
    net = c.get("network", "/networks?name=demo-net")["networks"][0]["id"]
    ext = c.get("network", "/networks?name=public")["networks"][0]["id"]
    sub = c.get("network", "/subnets?name=demo-subnet")["subnets"][0]["id"]
    sg = c.get("network", "/security-groups?name=demo-sg")["security_groups"][0]["id"]
    img = c.get("image", "/images?name=tiny")["images"][0]["id"]
    return {"net": net, "ext": ext, "subnet": sub, "sg": sg, "image": img}


def boot(c, ids, name, flavor="m1.small", **extra):
    body = {"name": name, "flavorRef": flavor, "imageRef": ids["image"], "key_name": "demo-key",
            "networks": [{"uuid": ids["net"]}], "security_groups": [{"name": "demo-sg"}]}
    hints = extra.pop("hints", None)
    body.update(extra)
    if "port" in [k for n in body["networks"] if isinstance(n, dict) for k in n]:
        body.pop("security_groups")
    doc = {"server": body}
    if hints:
        doc["os:scheduler_hints"] = hints
    return c.post("compute", "/servers", doc)["server"]["id"]


def wait_status(c, sid, want="ACTIVE", seconds=120, step=0.3):
    def probe():
        s = c.get("compute", "/servers/" + sid)["server"]
        return s if s["status"] in (want, "ERROR") else None
    return wait("server %s %s" % (sid, want), probe, seconds, step)


def is_gone(c, sid):
    return "itemNotFound" in c.call("GET", "compute", "/servers/" + sid, ok=(200, 404))


def pct(xs):
    xs = sorted(xs)
    return "n=%d p50=%.0fms p95=%.0fms max=%.0fms" % (
        len(xs), xs[len(xs) // 2] * 1e3, xs[min(len(xs) - 1, int(len(xs) * .95))] * 1e3, xs[-1] * 1e3)


def timed(fn, n):
    out = []
    for i in range(n):
        t = time.time()
        fn(i)
        out.append(time.time() - t)
    return out


def bench(n=100, par=8):
    n, par = int(n), int(par)
    d = demo()
    ids = env_ids(d)
    print("token (password):        ", pct(timed(lambda i: get_token(pw_auth("demo", DEMO_PW, "demo")), 20)))
    ac = {"identity": {"methods": ["application_credential"], "application_credential": {
        "name": "demo-app", "secret": "demo-app-secret", "user": {"name": "demo", "domain": {"name": "Default"}}}}}
    print("token (app credential):  ", pct(timed(lambda i: get_token(ac), 20)))
    made = []

    def mkport(i):
        made.append(d.post("network", "/ports", {"port": {"network_id": ids["net"], "name": "bench-%d" % i}})["port"]["id"])
    print("create port:             ", pct(timed(mkport, 20)))
    print("show port:               ", pct(timed(lambda i: d.get("network", "/ports/" + made[i]), 20)))
    print("delete port:             ", pct(timed(lambda i: d.delete("network", "/ports/" + made[i]), 20)))
    tag = "bench%d" % int(time.time())
    lat, sids = [], []
    lock = threading.Lock()

    def one(i):
        t = time.time()
        sid = boot(d, ids, "%s-%d" % (tag, i))
        with lock:
            lat.append(time.time() - t)
            sids.append(sid)
    t0 = time.time()
    with cf.ThreadPoolExecutor(par) as ex:
        list(ex.map(one, range(n)))
    t_acc = time.time() - t0

    def counts():
        c, marker = {}, ""
        while True:
            page = d.get("compute", "/servers/detail?name=%s-&limit=1000%s" % (tag, marker))["servers"]
            for s in page:
                c[s["status"]] = c.get(s["status"], 0) + 1
            if len(page) < 1000:
                return c
            marker = "&marker=" + page[-1]["id"]

    def settled():
        c = counts()
        settled.last = c
        return c.get("ACTIVE", 0) + c.get("ERROR", 0) == n
    wait("%d servers settled" % n, settled, 60 + n * 4, 1)
    t_act = time.time() - t0
    print("create server (%d at a time): %s" % (par, pct(lat)))
    print("boot %d servers: all accepted %.1fs, all settled %.1fs (%.1f/s) %s" % (n, t_acc, t_act, n / t_act, settled.last))
    print("list servers detail (%d): %s" % (n, pct(timed(lambda i: d.get("compute", "/servers/detail?name=%s-" % tag), 5))))
    print("list servers brief (%d):  %s" % (n, pct(timed(lambda i: d.get("compute", "/servers?name=%s-" % tag), 5))))
    print("show server:             ", pct(timed(lambda i: d.get("compute", "/servers/" + sids[i % n]), 20)))
    print("list ports (%d):         " % n, pct(timed(lambda i: d.get("network", "/ports?network_id=" + ids["net"]), 5)))
    one_lat = []
    t = time.time()
    sid = boot(d, ids, tag + "-single")
    one_lat.append(time.time() - t)
    wait_status(d, sid, step=0.1)
    print("one server, idle cloud: accepted %.0fms, ACTIVE %.2fs" % (one_lat[0] * 1e3, time.time() - t))
    t = time.time()
    d.delete("compute", "/servers/" + sid)
    wait("gone", lambda: is_gone(d, sid), 60, 0.1)
    print("one server delete -> 404: %.2fs" % (time.time() - t))
    if os.environ.get("BENCH_KEEP"):
        return 0
    t0 = time.time()
    with cf.ThreadPoolExecutor(par) as ex:
        list(ex.map(lambda x: d.delete("compute", "/servers/" + x), sids))
    wait("all gone", lambda: not counts(), 60 + n * 4, 1)
    print("delete %d servers: %.1fs" % (n, time.time() - t0))
    return 1 if settled.last.get("ERROR") else 0


def clean():
    d = demo()
    for _ in range(50):
        page = d.get("compute", "/servers?limit=1000")["servers"]
        if not page:
            break
        with cf.ThreadPoolExecutor(8) as ex:
            list(ex.map(lambda s: d.delete("compute", "/servers/" + s["id"]), page))
        time.sleep(2)
    for f in d.get("network", "/floatingips")["floatingips"]:
        d.delete("network", "/floatingips/" + f["id"])
    for p in d.get("network", "/ports?device_owner=")["ports"]:
        if not p["device_owner"]:
            d.delete("network", "/ports/" + p["id"])
    if CINDER:
        volumes = "/%s/volumes" % d.info["project"]["id"]
        for v in d.get("volumev3", volumes)["volumes"]:
            d.delete("volumev3", "%s/%s" % (volumes, v["id"]))
    print("demo project is clean")


def versions():
    c = admin()
    for svc in ("identity", "compute", "image", "network", "placement") + (("volumev3",) if CINDER else ()):
        r = requests.get("http://%s:%d/" % (HOST, PORTS[svc]), timeout=30)
        doc = r.json()
        vs = doc.get("versions", doc)
        vs = vs.get("values", vs) if isinstance(vs, dict) else vs
        for v in vs:
            print("%-10s id=%s status=%s min=%s max=%s" % (svc, v.get("id"), v.get("status"),
                  v.get("min_version", ""), v.get("version") or v.get("max_version", "")))
    ex = sorted(e["alias"] for e in c.get("network", "/extensions")["extensions"])
    print("neutron extensions (%d): %s" % (len(ex), " ".join(ex)))



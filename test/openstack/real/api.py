"""The test cloud's addresses, passwords and a small client for its APIs."""
import os
import sys
import threading
import time

import requests

E = os.environ
HOST = E.get("STACK_HOST", "127.0.0.1")
STATE = E.get("STACK_STATE", "/var/tmp/drover-openstack")
PW = E.get("STACK_PASSWORD", "stack-secret")
ADMIN_PW = E.get("STACK_ADMIN_PASSWORD", "admin-secret")
DEMO_PW = E.get("STACK_DEMO_PASSWORD", "demo-secret")
REGION = E.get("STACK_REGION", "RegionOne")
FAULT_REGION = E.get("STACK_FAULT_REGION", "RegionFault")
OFFSET = int(E.get("STACK_FAULT_OFFSET", "10000"))
FAULTCTL = int(E.get("STACK_PORT_FAULTCTL", "18999"))
COMPUTES = int(E.get("STACK_COMPUTES", "3"))
CINDER = E.get("STACK_CINDER", "0") == "1"


def port(name, dflt):
    return int(E.get("STACK_PORT_" + name, dflt))


PORTS = {"identity": port("KEYSTONE", 5000), "image": port("GLANCE", 9292),
         "placement": port("PLACEMENT", 8778), "compute": port("NOVA", 8774),
         "network": port("NEUTRON", 9696), "volumev3": port("CINDER", 8776)}
PATHS = {"identity": "/v3", "image": "", "placement": "", "compute": "/v2.1", "network": "",
         "volumev3": "/v3"}
APIPATH = {"image": "/v2", "network": "/v2.0"}       # what a client adds to the catalog URL
NAMES = {"identity": "keystone", "image": "glance", "placement": "placement", "compute": "nova",
         "network": "neutron", "volumev3": "cinder"}
AUTH = "http://%s:%d/v3" % (HOST, PORTS["identity"])


def base(svc):
    return "http://%s:%d%s" % (HOST, PORTS[svc], PATHS[svc])


def log(msg):
    print("[%s] %s" % (time.strftime("%H:%M:%S"), msg), file=sys.stderr, flush=True)


class ApiError(Exception):
    def __init__(self, method, url, resp):
        self.code = resp.status_code
        self.body = resp.text
        self.headers = resp.headers
        super().__init__("%s %s -> %d %s" % (method, url, resp.status_code, resp.text[:500]))


def get_token(auth, full=False):
    r = requests.post(AUTH + "/auth/tokens", json={"auth": auth}, timeout=60)
    if r.status_code != 201:
        raise ApiError("POST", "/auth/tokens", r)
    return (r.headers["X-Subject-Token"], r.json()["token"]) if full else r.headers["X-Subject-Token"]


def pw_auth(user, password, project=None, domain="Default", scope_domain=None):
    a = {"identity": {"methods": ["password"], "password": {"user": {
        "name": user, "password": password, "domain": {"name": domain}}}}}
    if project:
        a["scope"] = {"project": {"name": project, "domain": {"name": domain}}}
    if scope_domain:
        a["scope"] = {"domain": {"name": scope_domain}}
    return a


class Cloud:
    """A project-scoped client with one keep-alive connection per thread."""

    def __init__(self, auth, region=REGION, microversion="2.93"):
        self.auth, self.mv = auth, microversion
        self.offset = OFFSET if region == FAULT_REGION else 0
        self.token, self.info = get_token(auth, full=True)
        self.local = threading.local()

    def http(self):
        if not hasattr(self.local, "s"):
            self.local.s = requests.Session()
            self.local.s.trust_env = False
        return self.local.s

    def call(self, method, svc, path, body=None, ok=(200, 201, 202, 203, 204), headers=None, data=None,
             mv=None):
        h = {"X-Auth-Token": self.token, "Accept": "application/json"}
        if svc == "compute":
            h["OpenStack-API-Version"] = "compute " + (mv or self.mv)
        elif svc == "volumev3":
            h["OpenStack-API-Version"] = "volume 3.70"
        elif svc == "placement":
            h["OpenStack-API-Version"] = "placement 1.39"
        h.update(headers or {})
        url = "http://%s:%d%s%s%s" % (HOST, PORTS[svc] + self.offset, PATHS[svc], APIPATH.get(svc, ""), path)
        r = self.http().request(method, url, json=body, data=data, headers=h, timeout=180)
        if r.status_code not in ok:
            raise ApiError(method, url, r)
        if r.content and r.headers.get("Content-Type", "").startswith("application/json"):
            return r.json()
        return r

    def get(self, svc, path, **kw):
        return self.call("GET", svc, path, **kw)

    def post(self, svc, path, body, **kw):
        return self.call("POST", svc, path, body, **kw)

    def put(self, svc, path, body=None, **kw):
        return self.call("PUT", svc, path, body, **kw)

    def patch(self, svc, path, body, **kw):
        return self.call("PATCH", svc, path, body, **kw)

    def delete(self, svc, path, **kw):
        kw.setdefault("ok", (200, 202, 204, 404))
        return self.call("DELETE", svc, path, **kw)


def admin(**kw):
    return Cloud(pw_auth("admin", ADMIN_PW, "admin"), **kw)


def demo(**kw):
    return Cloud(pw_auth("demo", DEMO_PW, "demo"), **kw)


def other(**kw):
    return Cloud(pw_auth("other", DEMO_PW, "other"), **kw)


def wait(what, fn, seconds=120, step=0.5):
    end, last = time.time() + seconds, None
    while time.time() < end:
        try:
            last = fn()
            if last:
                return last
        except (requests.RequestException, ApiError) as e:
            last = str(e)[:300]
        time.sleep(step)
    raise SystemExit("gave up after %ss waiting for %s (last: %s)" % (seconds, what, last))


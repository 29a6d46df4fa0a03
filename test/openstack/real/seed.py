"""What the test cloud holds from the beginning, and the files with which clients log in."""
import base64
import hashlib
import json
import os

from api import ADMIN_PW, AUTH, CINDER, COMPUTES, DEMO_PW, FAULT_REGION, REGION, STATE, ApiError, admin, demo, log, other


FLAVORS = [("m1.tiny", 1, 512, 1), ("m1.small", 1, 2048, 20), ("m1.medium", 2, 4096, 40),
           ("m1.large", 4, 8192, 80), ("m1.xlarge", 8, 16384, 160),
           ("m1.diskless", 1, 2048, 0),             # only boots from a volume
           ("m1.impossible", 100000, 2048, 20)]     # never fits: NoValidHost on demand


def seed():
    c = admin()
    d = demo()
    have = {f["name"]: f for f in c.get("compute", "/flavors/detail?is_public=None")["flavors"]}
    for name, cpu, ram, disk in FLAVORS:
        if name not in have:
            c.post("compute", "/flavors", {"flavor": {"name": name, "id": name, "vcpus": cpu, "ram": ram, "disk": disk}})

    def image(name, data, **props):
        found = c.get("image", "/images?name=" + name)["images"]
        found = [i for i in found if i["status"] == "active"] or found
        if not found:
            found = [c.post("image", "/images", dict(props, name=name, disk_format="raw", container_format="bare",
                                                     visibility="public"))]
        img = found[0]
        if img["status"] == "queued":
            c.call("PUT", "image", "/images/%s/file" % img["id"], data=data,
                   headers={"Content-Type": "application/octet-stream"})
        return img["id"]

    image("tiny", b"\0" * 1048576, os_distro="linux", architecture="x86_64")
    image("tiny-2", b"\1" * 1048576, os_distro="linux", architecture="x86_64")

    # availability zones: compute-N lives in azN
    aggs = {a["name"]: a for a in c.get("compute", "/os-aggregates")["aggregates"]}
    for i in range(1, COMPUTES + 1):
        az, host = "az%d" % i, "compute-%d" % i
        a = aggs.get(az) or c.post("compute", "/os-aggregates", {"aggregate": {"name": az, "availability_zone": az}})["aggregate"]
        if host not in (a.get("hosts") or []):
            c.post("compute", "/os-aggregates/%s/action" % a["id"], {"add_host": {"host": host}})

    def net_obj(cl, coll, key, name, **body):
        found = cl.get("network", "/%s?name=%s" % (coll, name))[coll.replace("-", "_")]
        return found[0] if found else cl.post("network", "/" + coll, {key: dict(body, name=name)})[key]

    ext = net_obj(c, "networks", "network", "public", **{"router:external": True, "provider:network_type": "flat",
                                                         "provider:physical_network": "public", "shared": False})
    net_obj(c, "subnets", "subnet", "public-v4", network_id=ext["id"], ip_version=4, cidr="172.24.0.0/16",
            enable_dhcp=False, gateway_ip="172.24.0.1",
            allocation_pools=[{"start": "172.24.1.0", "end": "172.24.255.250"}])
    # a pool of one address, and a network of one address that no router joins to anything
    few = net_obj(c, "networks", "network", "tiny-public", **{"router:external": True, "provider:network_type": "flat",
                                                              "provider:physical_network": "tiny", "shared": False})
    net_obj(c, "subnets", "subnet", "tiny-public-v4", network_id=few["id"], ip_version=4, cidr="172.25.0.0/29",
            enable_dhcp=False, gateway_ip="172.25.0.1", allocation_pools=[{"start": "172.25.0.2", "end": "172.25.0.2"}])
    lone = net_obj(d, "networks", "network", "tiny-net")
    net_obj(d, "subnets", "subnet", "tiny-subnet", network_id=lone["id"], ip_version=4, cidr="10.99.0.0/29",
            enable_dhcp=False, gateway_ip="10.99.0.1", allocation_pools=[{"start": "10.99.0.2", "end": "10.99.0.2"}])
    net = net_obj(d, "networks", "network", "demo-net")
    sub = net_obj(d, "subnets", "subnet", "demo-subnet", network_id=net["id"], ip_version=4, cidr="10.10.0.0/16",
                  gateway_ip="10.10.0.1", dns_nameservers=["10.10.0.2"])
    rtr = net_obj(d, "routers", "router", "demo-router", external_gateway_info={"network_id": ext["id"]})
    if not d.get("network", "/ports?device_id=%s&device_owner=network:router_interface" % rtr["id"])["ports"]:
        d.put("network", "/routers/%s/add_router_interface" % rtr["id"], {"subnet_id": sub["id"]})
    # two networks of the project other, which shares the second with the project demo
    o, nets = other(), {}
    for name, cidr in ("other", "10.20.0"), ("shared", "10.30.0"):
        nets[name] = net_obj(o, "networks", "network", name + "-net")
        net_obj(o, "subnets", "subnet", name + "-subnet", network_id=nets[name]["id"], ip_version=4, cidr=cidr + ".0/24")
    policy = {"object_type": "network", "object_id": nets["shared"]["id"], "action": "access_as_shared",
              "target_tenant": d.info["project"]["id"]}
    if not o.get("network", "/rbac-policies?object_id=%s" % policy["object_id"])["rbac_policies"]:
        o.post("network", "/rbac-policies", {"rbac_policy": policy})
    sg = net_obj(d, "security-groups", "security_group", "demo-sg", description="ssh and ping")
    want = [("tcp", 22, 22), ("icmp", None, None), ("tcp", 30000, 32767)]
    got = {(r["protocol"], r["port_range_min"]) for r in sg["security_group_rules"]}
    for proto, lo, hi in want:
        if (proto, lo) not in got:
            d.post("network", "/security-group-rules", {"security_group_rule": {
                "security_group_id": sg["id"], "direction": "ingress", "ethertype": "IPv4", "protocol": proto,
                "port_range_min": lo, "port_range_max": hi}})
    if not [k for k in d.get("compute", "/os-keypairs")["keypairs"] if k["keypair"]["name"] == "demo-key"]:
        d.post("compute", "/os-keypairs", {"keypair": {"name": "demo-key", "type": "ssh", "public_key": ssh_key()}})
    if CINDER:
        pid = c.info["project"]["id"]
        types = {t["name"] for t in c.get("volumev3", "/%s/types" % pid)["volume_types"]}
        for t in ("standard", "ssd"):
            if t not in types:
                c.post("volumev3", "/%s/types" % pid, {"volume_type": {"name": t, "extra_specs": {"volume_backend_name": "fake"}}})
    app_credential(d, "demo-app", "demo-app-secret")
    log("seed data complete")


def ssh_key():
    """A syntactically valid ed25519 public key (its private half does not exist)."""
    raw = b"\0\0\0\x0bssh-ed25519\0\0\0 " + hashlib.sha256(b"stack").digest()
    return "ssh-ed25519 %s stack@test" % base64.b64encode(raw).decode()


def app_credential(c, name, secret, **extra):
    uid = c.info["user"]["id"]
    path = "/users/%s/application_credentials" % uid
    for a in c.get("identity", path + "?name=" + name)["application_credentials"]:
        return a
    # no "roles": it gets every role of the creator's token. Keystone 22 does not add implied roles to an
    # application credential's token, so one made with member alone is refused where reader is asked for.
    return c.post("identity", path, {"application_credential": dict(
        extra, name=name, secret=secret)})["application_credential"]


def openrc():
    d = demo()
    try:
        app = app_credential(d, "demo-app", "demo-app-secret")["id"]
    except ApiError:
        app = ""

    def rc(user, pw, project):
        return "\n".join("export %s=%s" % kv for kv in (
            ("OS_AUTH_URL", AUTH), ("OS_IDENTITY_API_VERSION", 3), ("OS_USERNAME", user), ("OS_PASSWORD", pw),
            ("OS_PROJECT_NAME", project), ("OS_USER_DOMAIN_NAME", "Default"), ("OS_PROJECT_DOMAIN_NAME", "Default"),
            ("OS_REGION_NAME", REGION), ("OS_INTERFACE", "public"))) + "\n"

    files = {"openrc": rc("demo", DEMO_PW, "demo"), "openrc-admin": rc("admin", ADMIN_PW, "admin"),
             "openrc-app": "\n".join("export %s=%s" % kv for kv in (
                 ("OS_AUTH_TYPE", "v3applicationcredential"), ("OS_AUTH_URL", AUTH),
                 ("OS_APPLICATION_CREDENTIAL_ID", app), ("OS_APPLICATION_CREDENTIAL_SECRET", "demo-app-secret"),
                 ("OS_REGION_NAME", REGION), ("OS_INTERFACE", "public"))) + "\n"}
    for name, text in files.items():
        with open(os.path.join(STATE, name), "w") as f:
            f.write(text)

    def cloud(user, pw, project, region=REGION, domain="Default"):
        return {"auth_type": "password", "region_name": region, "interface": "public",
                "auth": {"auth_url": AUTH, "username": user, "password": pw, "project_name": project,
                         "user_domain_name": domain, "project_domain_name": domain}}

    clouds = {"demo": cloud("demo", DEMO_PW, "demo"), "demo-fault": cloud("demo", DEMO_PW, "demo", FAULT_REGION),
              "admin": cloud("admin", ADMIN_PW, "admin"), "reader": cloud("demo-reader", DEMO_PW, "demo"),
              "other": cloud("other", DEMO_PW, "other"),
              "corp": cloud("corp-user", DEMO_PW, "corp-project", domain="corp"),
              "app": {"auth_type": "v3applicationcredential", "region_name": REGION, "interface": "public",
                      "auth": {"auth_url": AUTH, "application_credential_id": app,
                               "application_credential_secret": "demo-app-secret"}}}
    with open(os.path.join(STATE, "clouds.yaml"), "w") as f:      # JSON is YAML
        json.dump({"clouds": clouds}, f, indent=1)


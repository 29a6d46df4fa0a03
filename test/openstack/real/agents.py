#!/usr/bin/python3
"""Stands in for neutron's layer-2 and layer-3 agents.

Nova's fake virt driver makes no network devices, so a real agent would never see one and
ports would stay DOWN. This process speaks the agents' own RPC with neutron-server:
  * reports an "Open vSwitch agent" for every compute host and for network-1, so that the
    openvswitch mechanism driver binds ports there;
  * on port_update, reports the port as up (neutron then makes it ACTIVE and tells nova);
  * reports an "L3 agent" on network-1, takes the routers scheduled to it, and reports their
    floating IPs ACTIVE (or DOWN once they are disassociated).
It touches no network device.

Environment: STACK_COMPUTES (hosts compute-1..N), STACK_PORT_UP_DELAY (seconds from binding to ACTIVE,
default 0), STACK_PORT_UP=0 (never report a port up: ports stay DOWN, for tests).
"""
import eventlet
eventlet.monkey_patch()

import os      # noqa: E402
import sys     # noqa: E402
import time    # noqa: E402

from neutron.agent import rpc as agent_rpc                     # noqa: E402
from neutron.common import config as common_config             # noqa: E402
from neutron.conf.agent import common as agent_conf            # noqa: E402
from neutron_lib import context as n_context                   # noqa: E402
from neutron_lib import rpc as n_rpc                           # noqa: E402
from neutron_lib.agent import topics                           # noqa: E402
from oslo_config import cfg                                    # noqa: E402
from oslo_log import log as logging                            # noqa: E402
import oslo_messaging                                          # noqa: E402

LOG = logging.getLogger("agents")
COMPUTE_HOSTS = ["compute-%d" % i for i in range(1, int(os.environ.get("STACK_COMPUTES", "3")) + 1)]
L3_HOST = "network-1"
L2_HOSTS = COMPUTE_HOSTS + [L3_HOST]
UP = os.environ.get("STACK_PORT_UP", "1") != "0"
DELAY = float(os.environ.get("STACK_PORT_UP_DELAY", "0"))
REPORT_EVERY = 20


def l2_state(host):
    return {"binary": "neutron-openvswitch-agent", "host": host, "topic": "N/A",
            "agent_type": "Open vSwitch agent",
            "configurations": {"bridge_mappings": {"public": "br-ex", "physnet1": "br-phys"},
                               "tunnel_types": ["vxlan"], "tunneling_ip": "127.0.0.1",
                               "l2_population": False, "enable_distributed_routing": False,
                               "datapath_type": "system", "extensions": [], "in_distributed_mode": False,
                               "arp_responder_enabled": False, "log_agent_heartbeats": False}}


def l3_state(routers, fips):
    return {"binary": "neutron-l3-agent", "host": L3_HOST, "topic": topics.L3_AGENT, "agent_type": "L3 agent",
            "availability_zone": "nova",
            "configurations": {"agent_mode": "legacy", "handle_internal_only_routers": True,
                               "interface_driver": "openvswitch", "log_agent_heartbeats": False,
                               "routers": routers, "ex_gw_ports": routers, "interfaces": 0, "floating_ips": fips}}


class L2Endpoint:
    target = oslo_messaging.Target(version="1.5")

    def __init__(self, ctx):
        self.ctx = ctx
        self.api = agent_rpc.PluginApi(topics.PLUGIN)

    def port_update(self, context, port=None, **kw):
        host = (port or {}).get("binding:host_id")
        if UP and host in L2_HOSTS and port.get("status") != "ACTIVE":
            eventlet.spawn_after(DELAY, self.up, port["id"], host)

    def up(self, port_id, host):
        for attempt in range(5):
            try:
                return self.api.update_device_up(self.ctx, port_id, "ovs-agent-" + host, host)
            except Exception as e:                      # noqa: BLE001 - a restart of neutron must not end us
                LOG.warning("port %s up: %s", port_id, e)
                eventlet.sleep(1 + attempt)

    # notices an agent would act on; nothing to do here
    def _ignore(self, context, **kw):
        pass
    port_delete = network_delete = network_update = binding_activate = binding_deactivate = _ignore
    security_groups_rule_updated = security_groups_member_updated = _ignore
    security_groups_provider_updated = tunnel_update = tunnel_delete = _ignore


class L3Endpoint:
    target = oslo_messaging.Target(version="1.5")

    def __init__(self, ctx):
        self.ctx = ctx
        self.client = n_rpc.get_client(oslo_messaging.Target(topic=topics.L3PLUGIN, version="1.0"))
        self.routers = {}                               # router id -> set of its floating IP ids
        self.busy, self.again = set(), set()

    def sync(self, ids=None):
        routers = self.client.prepare().call(self.ctx, "sync_routers", host=L3_HOST, router_ids=ids) or []
        for r in routers:
            self.take(r)
        return routers

    def take(self, r):
        now = {f["id"] for f in r.get("_floatingips", [])}
        old = self.routers.get(r["id"], set())
        want = {f["id"]: "ACTIVE" for f in r.get("_floatingips", []) if f.get("status") != "ACTIVE"}
        want.update({f: "DOWN" for f in old - now})
        self.routers[r["id"]] = now
        if want:
            self.client.prepare(version="1.1").call(self.ctx, "update_floatingip_statuses",
                                                    router_id=r["id"], fip_statuses=want)

    def work(self, rid):
        """One worker per router; a notice that comes while it runs makes it run once more."""
        if rid in self.busy:
            self.again.add(rid)
            return
        self.busy.add(rid)
        try:
            while True:
                self.again.discard(rid)
                try:
                    self.sync([rid])
                except Exception as e:                  # noqa: BLE001
                    LOG.warning("router %s: %s", rid, e)
                if rid not in self.again:
                    return
        finally:
            self.busy.discard(rid)

    def routers_updated(self, context, routers=None, **kw):
        for r in routers or []:
            eventlet.spawn_n(self.work, r["id"] if isinstance(r, dict) else r)

    def router_added_to_agent(self, context, payload=None, **kw):
        self.routers_updated(context, payload)

    def router_deleted(self, context, router_id=None, **kw):
        self.routers.pop(router_id, None)

    def router_removed_from_agent(self, context, payload=None, **kw):
        self.routers.pop((payload or {}).get("router_id"), None)

    def _ignore(self, context, **kw):
        pass
    agent_updated = add_arp_entry = del_arp_entry = fipnamespace_delete_on_ext_net = _ignore
    update_fip_vlan = create_fip_agent_gateway_port = _ignore


def main():
    common_config.register_common_config_options()
    agent_conf.register_agent_state_opts_helper(cfg.CONF)
    common_config.init(sys.argv[1:])
    common_config.setup_logging()
    ctx = n_context.get_admin_context_without_session()
    states = agent_rpc.PluginReportStateAPI(topics.REPORTS)
    l2, l3 = L2Endpoint(ctx), L3Endpoint(ctx)

    conn = agent_rpc.create_consumers(
        [l2], topics.AGENT,
        [[topics.PORT, topics.UPDATE], [topics.PORT, topics.DELETE], [topics.NETWORK, topics.UPDATE],
         [topics.NETWORK, topics.DELETE], [topics.SECURITY_GROUP, topics.UPDATE]], start_listening=False)
    conn.consume_in_threads()
    # the L3 agent listens on its own topic, both addressed to its host and broadcast
    server = n_rpc.get_server(oslo_messaging.Target(topic=topics.L3_AGENT, server=L3_HOST), [l3])
    server.start()

    started, resync = False, 0.0
    while True:
        try:
            for h in L2_HOSTS:
                s = l2_state(h)
                if not started:
                    s["start_flag"] = True
                states.report_state(ctx, s, use_call=not started)
            s = l3_state(len(l3.routers), sum(map(len, l3.routers.values())))
            if not started:
                s["start_flag"] = True
            states.report_state(ctx, s, use_call=not started)
            if not started:
                LOG.warning("reported %d L2 agents and 1 L3 agent", len(L2_HOSTS))
            started = True
            if time.time() - resync > 60:               # catch anything missed while neutron or rabbit was away
                l3.sync()
                resync = time.time()
        except Exception as e:                          # noqa: BLE001
            LOG.warning("report: %s", e)
            eventlet.sleep(2)
            continue
        eventlet.sleep(REPORT_EVERY)


if __name__ == "__main__":
    main()

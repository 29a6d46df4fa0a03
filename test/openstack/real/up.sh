#!/bin/bash
# Installs, configures and starts the OpenStack test cloud. Safe to run again: finished
# steps are skipped, running services are left alone, stopped ones are started.
#   up.sh [--no-seed]
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
. "$STACK_DIR/config.sh"
need_root
SEED=1; [ "${1:-}" = --no-seed ] && SEED=0
T0=$SECONDS
mkdir -p "$STACK_STATE"
exec 9>"$STACK_STATE/up.lock"
flock -w 900 9 || die "another up.sh holds $STACK_STATE/up.lock"

# ---------------------------------------------------------------- install
PKGS="python3-keystone python3-glance glance-common python3-placement python3-nova nova-common
 python3-neutron neutron-common python3-openstackclient uwsgi-plugin-python3
 mariadb-server-core mariadb-client-core rabbitmq-server memcached curl iproute2"
[ "$STACK_CINDER" = 1 ] && PKGS="$PKGS python3-cinder cinder-common"

missing_pkgs() {
    local p
    for p in $PKGS; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
    done
}
install_pkgs() {
    local miss had=1 i rc=1
    miss=$(missing_pkgs)
    [ -z "$miss" ] && return 0
    say "installing: $(echo $miss)"
    if [ ! -e /usr/sbin/policy-rc.d ]; then     # no package may start a service of its own
        had=0; printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
    fi
    for i in 1 2 3; do
        { nice -n "$STACK_NICE" apt-get -o DPkg::Lock::Timeout=600 update &&
          DEBIAN_FRONTEND=noninteractive nice -n "$STACK_NICE" apt-get install -y --no-install-recommends \
            -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 \
            -o Dpkg::Options::=--force-unsafe-io \
            -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold $miss
        } >>"$LOG/apt.log" 2>&1 </dev/null 9>&- && { rc=0; break; }
        say "apt-get failed (try $i of 3)"; sleep 5
    done
    [ $had = 0 ] && rm -f /usr/sbin/policy-rc.d
    [ $rc = 0 ] || fail_with_log apt "apt-get could not install the packages"
    miss=$(missing_pkgs); [ -z "$miss" ] || die "still missing after install: $miss"
}
mkdir -p "$LOG" "$RUN" "$ETC" "$DONE"
install_pkgs
PKG_STAMP=$(dpkg-query -W -f '${Package}=${Version}\n' python3-keystone python3-glance python3-placement \
    python3-nova python3-neutron mariadb-server-core 2>/dev/null | sha256sum | cut -c1-16)
T_INSTALL=$((SECONDS - T0)); say "packages ready (${T_INSTALL}s)"

# ---------------------------------------------------------------- configure
write_configs
# a port held by a stranger is an error, said early
check_port() { # check_port SERVICE PORT
    if ! running "$1" && port_open "$2"; then die "port $2 ($1) is taken by a process that is not ours"; fi
}
for sp in mariadb:$STACK_PORT_MYSQL memcached:$STACK_PORT_MEMCACHED rabbitmq:$STACK_PORT_AMQP epmd:$STACK_PORT_EPMD keystone:$STACK_PORT_KEYSTONE \
    glance:$STACK_PORT_GLANCE placement:$STACK_PORT_PLACEMENT nova-api:$STACK_PORT_NOVA neutron:$STACK_PORT_NEUTRON; do
    check_port "${sp%%:*}" "${sp##*:}"
done

# ---------------------------------------------------------------- database and message queue
init_mysql() {
    rm -rf "$STACK_STATE/mysql" &&
    mariadb-install-db --no-defaults --datadir="$STACK_STATE/mysql" --user=root \
        --auth-root-authentication-method=socket --auth-root-socket-user=root --skip-test-db
}
[ -d "$STACK_STATE/mysql/mysql" ] || rm -f "$DONE"/*      # a lost data directory means: do every step again
if [ ! -e "$DONE/mysql-init" ]; then once mysql-init init_mysql; fi
start mariadb mariadbd --defaults-file="$ETC/mariadb.cnf"

export ERL_EPMD_PORT=$STACK_PORT_EPMD ERL_EPMD_ADDRESS=127.0.0.1
EPMD=$(command -v epmd || ls /usr/lib/erlang/erts-*/bin/epmd | head -1)
start epmd "$EPMD" -address 127.0.0.1 -port "$STACK_PORT_EPMD"
wait_port epmd "$STACK_PORT_EPMD" 20
start rabbitmq env HOME="$STACK_STATE/rabbit" RABBITMQ_NODENAME=stack@localhost \
    RABBITMQ_CONF_ENV_FILE="$ETC/rabbitmq-env.conf" RABBITMQ_CONFIG_FILE="$ETC/rabbitmq.conf" \
    RABBITMQ_ADVANCED_CONFIG_FILE="$ETC/rabbitmq-advanced.config" \
    RABBITMQ_MNESIA_BASE="$STACK_STATE/rabbit/db" RABBITMQ_LOG_BASE="$LOG" \
    RABBITMQ_ENABLED_PLUGINS_FILE="$ETC/rabbitmq-plugins" RABBITMQ_DIST_PORT="$STACK_PORT_ERLDIST" \
    RABBITMQ_PID_FILE="$RUN/rabbit.own.pid" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none" \
    /usr/lib/rabbitmq/bin/rabbitmq-server
start memcached memcached -u nobody -l "$API" -p "$STACK_PORT_MEMCACHED" -U 0 -m 128 -c 4096
wait_port mariadb "$STACK_PORT_MYSQL" 60
wait_port memcached "$STACK_PORT_MEMCACHED" 20

make_dbs() {
    local d
    for d in keystone glance placement nova nova_api nova_cell0 neutron cinder; do
        echo "CREATE DATABASE IF NOT EXISTS $d CHARACTER SET utf8mb3;"
    done | sql || return 1
    sql -e "CREATE USER IF NOT EXISTS 'stack'@'127.0.0.1' IDENTIFIED BY '$STACK_PASSWORD';
            GRANT ALL PRIVILEGES ON *.* TO 'stack'@'127.0.0.1';"
}
once databases make_dbs

# ---------------------------------------------------------------- schemas (in parallel)
N="nice -n $STACK_NICE"
KS_CONF="--config-file $ETC/keystone.conf"
schema_keystone() {
    $N keystone-manage $KS_CONF fernet_setup --keystone-user root --keystone-group root &&
    $N keystone-manage $KS_CONF credential_setup --keystone-user root --keystone-group root &&
    $N keystone-manage $KS_CONF db_sync &&
    $N keystone-manage $KS_CONF bootstrap --bootstrap-username admin --bootstrap-project-name admin \
        --bootstrap-password "$STACK_ADMIN_PASSWORD" --bootstrap-role-name admin --bootstrap-service-name keystone \
        --bootstrap-region-id "$STACK_REGION" \
        --bootstrap-admin-url "$AUTH_URL" --bootstrap-internal-url "$AUTH_URL" --bootstrap-public-url "$AUTH_URL"
}
schema_glance()    { $N glance-manage --config-file "$ETC/glance-api.conf" db_sync; }
schema_placement() { $N placement-manage --config-file "$ETC/placement.conf" db sync; }
schema_neutron()   { $N neutron-db-manage --config-file "$ETC/neutron.conf" --config-file "$ETC/ml2.ini" upgrade heads; }
schema_nova() {
    local m="$N nova-manage --config-file $ETC/nova.conf"
    $m api_db sync &&
    $m cell_v2 map_cell0 --database_connection "$(db_url nova_cell0)" &&
    { $m cell_v2 list_cells | grep -q ' cell1 ' || $m cell_v2 create_cell --name cell1; } &&
    $m db sync
}
schema_cinder()    { $N cinder-manage --config-file "$ETC/cinder.conf" db sync; }
bg_once() { (once "$@") & SCHEMA_PIDS+=($!); }
SCHEMA_PIDS=()
bg_once schema-keystone schema_keystone
bg_once schema-nova schema_nova
bg_once schema-neutron schema_neutron
bg_once schema-glance schema_glance
bg_once schema-placement schema_placement
[ "$STACK_CINDER" = 1 ] && bg_once schema-cinder schema_cinder
bad=0
for p in "${SCHEMA_PIDS[@]}"; do wait "$p" || bad=1; done
[ $bad = 0 ] || die "a database schema step failed (see above)"
T_SCHEMA=$((SECONDS - T0 - T_INSTALL))
wait_port rabbitmq "$STACK_PORT_AMQP" 120

# ---------------------------------------------------------------- services
uwsgi_app() { # uwsgi_app NAME PORT SCRIPT PROCESSES
    start "$1" uwsgi_python3 --http-socket "$API:$2" --wsgi-file "$3" --master --processes "$4" --threads 4 \
        --enable-threads --thunder-lock --lazy-apps --die-on-term --buffer-size 65535 --add-header "Connection: close" \
        --log-format '%(method) %(uri) => %(status) in %(msecs)ms' --need-app
}
entry() { # entry NAME MODULE ARGS... : runs MODULE:main of a package that ships no command for it
    local name=$1 mod=$2; shift 2
    start "$name" /usr/bin/python3 -c "import sys; sys.argv[0]='$name'; from $mod import main; sys.exit(main())" "$@"
}
OS_KEYSTONE_CONFIG_FILES="$ETC/keystone.conf" OS_KEYSTONE_CONFIG_DIR="$ETC" \
    uwsgi_app keystone "$STACK_PORT_KEYSTONE" /usr/bin/keystone-wsgi-public "$STACK_KEYSTONE_PROCS"
wait_http keystone "$AUTH_URL" 90
$N /usr/bin/python3 "$STACK_DIR/stackctl.py" catalog 9>&- || die "could not fill the keystone catalog"

OS_PLACEMENT_CONFIG_DIR="$ETC" uwsgi_app placement "$STACK_PORT_PLACEMENT" /usr/bin/placement-api 2
entry glance glance.cmd.api --config-file "$ETC/glance-api.conf"
entry neutron neutron.cmd.eventlet.server --config-file "$ETC/neutron.conf" --config-file "$ETC/ml2.ini"
entry nova-conductor nova.cmd.conductor --config-file "$ETC/nova.conf"
wait_http placement "http://$API:$STACK_PORT_PLACEMENT/" 90
entry nova-scheduler nova.cmd.scheduler --config-file "$ETC/nova.conf"
entry nova-api nova.cmd.api_os_compute --config-file "$ETC/nova.conf"
for c in $(computes); do
    start "$c" /usr/bin/python3 "$STACK_DIR/compute.py" --config-file "$ETC/nova.conf" --config-file "$ETC/$c.conf"
done
wait_http glance "http://$API:$STACK_PORT_GLANCE/" 120
wait_http neutron "http://$API:$STACK_PORT_NEUTRON/" 180
wait_http nova-api "http://$API:$STACK_PORT_NOVA/" 180
start agents /usr/bin/python3 "$STACK_DIR/agents.py" --config-file "$ETC/neutron.conf"
if [ "$STACK_CINDER" = 1 ]; then
    mkdir -p "$STACK_STATE/cinder"
    PYTHONPATH="$STACK_DIR" entry cinder-volume cinder.cmd.volume --config-file "$ETC/cinder.conf"
    entry cinder-scheduler cinder.cmd.scheduler --config-file "$ETC/cinder.conf"
    entry cinder-api cinder.cmd.api --config-file "$ETC/cinder.conf"
    wait_http cinder-api "http://$API:$STACK_PORT_CINDER/" 120
fi
if [ "$STACK_FAULTPROXY" = 1 ]; then
    start faultproxy /usr/bin/python3 "$STACK_DIR/faultproxy.py"
    wait_port faultproxy "$STACK_PORT_FAULTCTL" 30
fi

# nothing died after it had opened its port; every compute service up and mapped, every agent alive
all_alive() {
    local s
    for s in $(services); do
        [ "$s" = faultproxy ] && [ "$STACK_FAULTPROXY" != 1 ] && continue
        running "$s" || fail_with_log "$s" "$s exited after it had started"
    done
}
sleep 1; all_alive
$N /usr/bin/python3 "$STACK_DIR/stackctl.py" wait-services 9>&- || { all_alive; die "services did not all report in"; }
HOSTS=$(computes | sha256sum | cut -c1-16)
map_hosts() { $N nova-manage --config-file "$ETC/nova.conf" cell_v2 discover_hosts; }
once "hosts-$HOSTS" map_hosts
T_START=$((SECONDS - T0 - T_INSTALL - T_SCHEMA))

if [ $SEED = 1 ]; then
    $N /usr/bin/python3 "$STACK_DIR/stackctl.py" seed 9>&- || die "seeding failed"
fi
$N /usr/bin/python3 "$STACK_DIR/stackctl.py" openrc 9>&- || die "could not write openrc"
T_ALL=$((SECONDS - T0))
say "up: install ${T_INSTALL}s, schemas ${T_SCHEMA}s, start ${T_START}s, seed $((T_ALL - T_INSTALL - T_SCHEMA - T_START))s, all ${T_ALL}s"
cat "$STACK_STATE/openrc"

# shellcheck shell=bash disable=SC2034
# Settings and helpers for the OpenStack test cloud. Sourced by the other scripts.
# Every STACK_* value can be set in the environment before calling a script.

: "${STACK_SLOT:=0}"                           # a second cloud beside the first: STACK_SLOT=1 (ports +100 each)
[ "$STACK_SLOT" = 0 ] && sfx= || sfx=-$STACK_SLOT
: "${STACK_STATE:=/var/tmp/drover-openstack$sfx}"    # all run-time state lives here
: "${STACK_NICE:=10}"                         # niceness of everything started
: "${STACK_COMPUTES:=3}"                      # nova-compute processes (compute-1..N, one AZ each: az1..azN)
: "${STACK_FAKE_DRIVER:=fake.FakeDriver}"     # nova virt driver of those processes
: "${STACK_FAST_CLAIM:=1}"                     # 1: leave out nova's per-server placement reads (see compute.py)
: "${STACK_API_WORKERS:=2}"                   # nova-api workers
: "${STACK_NEUTRON_WORKERS:=2}"               # neutron API workers
: "${STACK_NEUTRON_EXTRAS:=0}"                # 1: also qos, trunk, port_forwarding, dns (a port then costs a third more CPU)
: "${STACK_NEW_POLICY:=1}"                    # 1: nova and glance tell member from reader; 0: any role in the project will do
: "${STACK_KEYSTONE_PROCS:=2}"                # keystone uwsgi processes (x4 threads)
: "${STACK_CINDER:=0}"                        # 1: also cinder (LVM-less fake volume driver)
: "${STACK_TOKEN_TTL:=3600}"                  # keystone token lifetime, seconds
: "${STACK_TOKEN_CACHE:=300}"                  # how long services trust a validated token, seconds
: "${STACK_PASSWORD:=stack-secret}"           # service and database password (loopback only)
: "${STACK_ADMIN_PASSWORD:=admin-secret}"
: "${STACK_DEMO_PASSWORD:=demo-secret}"
: "${STACK_REGION:=RegionOne}"
: "${STACK_FAULT_REGION:=RegionFault}"        # same services, through faultproxy.py
: "${STACK_FAULTPROXY:=1}"                    # 1: start faultproxy.py

: "${STACK_HOST:=127.0.0.1}"
: "${STACK_PORT_KEYSTONE:=$((5000 + 100 * STACK_SLOT))}"
: "${STACK_PORT_GLANCE:=$((9292 + 100 * STACK_SLOT))}"
: "${STACK_PORT_PLACEMENT:=$((8778 + 100 * STACK_SLOT))}"
: "${STACK_PORT_NOVA:=$((8774 + 100 * STACK_SLOT))}"
: "${STACK_PORT_NEUTRON:=$((9696 + 100 * STACK_SLOT))}"
: "${STACK_PORT_CINDER:=$((8776 + 100 * STACK_SLOT))}"
: "${STACK_PORT_MYSQL:=$((13306 + 100 * STACK_SLOT))}"
: "${STACK_PORT_AMQP:=$((15673 + 100 * STACK_SLOT))}"
: "${STACK_PORT_MEMCACHED:=$((11311 + 100 * STACK_SLOT))}"
: "${STACK_PORT_EPMD:=$((14369 + 100 * STACK_SLOT))}"
: "${STACK_PORT_ERLDIST:=$((15674 + 100 * STACK_SLOT))}"
: "${STACK_FAULT_OFFSET:=10000}"              # faultproxy listens on <api port> + this
: "${STACK_PORT_FAULTCTL:=$((18999 + 100 * STACK_SLOT))}"             # faultproxy control port

export ${!STACK_@}

# The distribution's python, not any version manager's.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset sfx PYTHONPATH PYTHONHOME http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
export no_proxy=127.0.0.1,localhost
for v in ${!OS_@}; do unset "$v"; done
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1

STACK_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ETC=$STACK_STATE/etc RUN=$STACK_STATE/run LOG=$STACK_STATE/log DONE=$STACK_STATE/done
API=$STACK_HOST

say()  { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die()  { printf '[%s] ERROR: %s\n' "$(date +%H:%M:%S)" "$*" >&2; exit 1; }
need_root() { [ "$(id -u)" = 0 ] || die "run as root"; }

start_time() { # kernel start tick of pid $1 (guards against a reused pid)
    local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    s=${s##*) }; set -- $s; [ "$1" != Z ] || return 1; echo "${20}"
}
pid_of() { # prints the pid of service $1 when it is the process we started
    local p t; read -r p t 2>/dev/null <"$RUN/$1.pid" || return 1
    [ -n "$p" ] && [ -n "$t" ] && [ "$(start_time "$p")" = "$t" ] && echo "$p"
}
running() { pid_of "$1" >/dev/null; }

start() { # start NAME COMMAND...   (own session, own log, pid file)
    local name=$1 pid; shift
    if running "$name"; then return 0; fi
    setsid nice -n "$STACK_NICE" "$@" >>"$LOG/$name.log" 2>&1 </dev/null 9>&- &
    pid=$!
    disown "$pid" 2>/dev/null
    sleep 0.05
    echo "$pid $(start_time "$pid")" >"$RUN/$name.pid"
    say "started $name (pid $pid)"
}
stop() { # stop NAME [seconds to wait before KILL]
    local name=$1 wait=${2:-15} pid i
    if pid=$(pid_of "$name"); then
        kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null
        for ((i = 0; i < wait * 10; i++)); do running "$name" || break; sleep 0.1; done
        if running "$name"; then say "$name did not stop in ${wait}s: KILL"; fi
        kill -KILL -- "-$pid" 2>/dev/null
        say "stopped $name"
    fi
    rm -f "$RUN/$name.pid"
}
fail_with_log() { # fail_with_log NAME MESSAGE
    printf -- '---- last lines of %s ----\n' "$LOG/$1.log" >&2
    grep -vE '^\s*$' "$LOG/$1.log" 2>/dev/null | tail -n 30 | cut -c1-400 >&2
    die "$2"
}
port_open() { (exec 3<>"/dev/tcp/$API/$1") 2>/dev/null; }
wait_port() { # wait_port NAME PORT SECONDS
    local i
    for ((i = 0; i < $3 * 5; i++)); do
        port_open "$2" && return 0
        running "$1" || fail_with_log "$1" "$1 exited before it opened port $2"
        sleep 0.2
    done
    fail_with_log "$1" "$1 did not open port $2 within $3s"
}
wait_http() { # wait_http NAME URL SECONDS
    local i code
    for ((i = 0; i < $3 * 2; i++)); do
        code=$(curl -s -o /dev/null -m 10 -w '%{http_code}' "$2")
        case $code in 200|300|401) return 0 ;; esac
        running "$1" || fail_with_log "$1" "$1 exited before $2 answered"
        sleep 0.5
    done
    fail_with_log "$1" "$2 did not answer within $3s (last code $code)"
}
once() { # once STEP COMMAND... : runs COMMAND unless STEP was done for these packages
    local step=$1; shift
    [ "$(cat "$DONE/$step" 2>/dev/null)" = "$PKG_STAMP" ] && return 0
    local t0=$SECONDS
    "$@" >>"$LOG/$step.log" 2>&1 9>&- || fail_with_log "$step" "step $step failed: $*"
    echo "$PKG_STAMP" >"$DONE/$step"
    say "$step done in $((SECONDS - t0))s"
}
sql() { mariadb --no-defaults --socket="$RUN/mysqld.sock" -uroot "$@"; }
computes() { local i; for ((i = 1; i <= STACK_COMPUTES; i++)); do echo "compute-$i"; done; }

# start order; down.sh stops in reverse
services() {
    echo epmd mariadb rabbitmq memcached keystone glance placement neutron nova-conductor nova-scheduler nova-api
    if [ "$STACK_CINDER" = 1 ] || [ -e "$RUN/cinder-api.pid" ]; then echo cinder-scheduler cinder-volume cinder-api; fi
    { computes; ls "$RUN" 2>/dev/null | sed -n 's/^\(compute-[0-9]*\)\.pid$/\1/p'; } | sort -uV
    echo agents faultproxy
}

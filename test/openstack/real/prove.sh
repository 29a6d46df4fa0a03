#!/bin/bash
# From nothing to a proof: starts the cloud (volumes and trunks included), runs `make test-openstack` against it, and takes it away again.
#   prove.sh [--keep]     with --keep the cloud stays
set -uo pipefail
GOPATHS=$PATH    # env.sh keeps to the distribution's own commands
export STACK_CINDER=1 STACK_NEUTRON_EXTRAS=1
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
"$STACK_DIR/up.sh" >/dev/null || exit 1
PATH=$GOPATHS:$PATH OS_CLIENT_CONFIG_FILE=$STACK_STATE/clouds.yaml OS_CLOUD=demo DROVER_TEST_RUNNER=$STACK_DIR DROVER_TEST_VOLUME_TYPE=ssd \
    make -C "$STACK_DIR/../../.." test-openstack
held=$?
[ "${1:-}" = --keep ] || "$STACK_DIR/down.sh" --purge
exit $held

#!/usr/bin/env bash
# Restarts a kubelet that hangs: once it has a client certificate, its health endpoint must answer. Without the certificate the
# kubelet waits for it and has no such endpoint yet. A kubelet that somebody stopped stays stopped.
set -uo pipefail
failed=0
while sleep 20; do
  if [[ ! -s /var/lib/kubelet/pki/kubelet-client-current.pem ]] ||
    ! systemctl is-active --quiet kubelet.service ||
    curl --noproxy '*' --fail --silent --output /dev/null --max-time 10 http://127.0.0.1:10248/healthz; then
    failed=0
  elif ((++failed == 6)); then
    echo "the kubelet's health endpoint has failed $failed times in a row: restarting the kubelet"
    systemctl try-restart kubelet.service
    failed=0
  fi
done

package openstack

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// mostRefused is the maximum number of command-line flags in the log line about refused endpoints.
const mostRefused = 20

// refusedEndpoints collects command-line flags for the log. Each flag would allow an endpoint that drover refuses although a
// Machine with a server uses it. An operator needs these flags when drover takes over a cluster.
type refusedEndpoints struct {
	mu    sync.Mutex
	flags []string
}

// refuse returns the error for an endpoint that no operator has allowed. When the Machine m has a server, refuse also logs the
// flag that allows the endpoint, once for each flag, together with those of before. m is nil for a template.
func (r *refusedEndpoints) refuse(ctx context.Context, with *spec.Access, m *v1alpha1.Machine) error {
	endpoint, flag, err := with.Refuse()
	r.mu.Lock()
	defer r.mu.Unlock()
	if flag == "" || m == nil || serverIDOf(m) == "" || slices.Contains(r.flags, flag) || len(r.flags) >= mostRefused {
		return err
	}
	r.flags = append(r.flags, flag)
	slices.Sort(r.flags)
	log.FromContext(ctx).Info("Machines with servers use endpoints that are not allowed: drover sends no request to these endpoints, so it neither creates nor deletes servers there. Check the endpoints, then start drover with these flags",
		"flags", strings.Join(r.flags, " "), "machine", klog.KObj(m), "endpoint", endpoint)
	return err
}

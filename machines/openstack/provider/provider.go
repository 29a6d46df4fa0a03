package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Provider implements [cloud.Provider] for OpenStack.
type Provider struct {
	// ClusterID is part of the owner tags of ports and floating IPs.
	ClusterID string
	// Region selects provider IDs with a region (openstack://REGION/UUID) while the cluster has no Nodes.
	Region bool
}

// ServerID returns the server of a provider ID; empty when it is not one of OpenStack.
func (Provider) ServerID(providerID string) cloud.ServerID {
	return cloud.ServerID(ServerIDOf(providerID))
}

// Placement returns the flavor and the zone in a Machine's own provider spec. A value from a Secret or ConfigMap is left empty.
func (Provider) Placement(spec *v1alpha1.MachineSpec) (p cloud.Placement, known bool) {
	source, err := spec.Provider()
	if err != nil || source.Value == nil {
		return p, false
	}
	// The case of the keys is ignored, as in every provider spec.
	var document struct {
		CloudProviderSpec struct{ Flavor, AvailabilityZone any }
	}
	if json.Unmarshal(source.Value.Raw, &document) != nil {
		return p, false
	}
	p.Flavor, _ = document.CloudProviderSpec.Flavor.(string)
	p.Zone, _ = document.CloudProviderSpec.AvailabilityZone.(string)
	return p, true
}

// MayBeLeft names the server, the ports, the floating IP and the volumes of a Machine, for messages.
func (o Provider) MayBeLeft(m *v1alpha1.Machine) string {
	known, server := RecordOf(m), m.ServerName()
	if known.ServerID != "" {
		server += " (" + known.ServerID + ")"
	}
	text := fmt.Sprintf("server %s, and ports and floating IPs whose description begins with %q, may be left",
		server, fmt.Sprintf("drover %s %s", o.ClusterID, m.UID))
	if known.ProjectID != "" {
		text += fmt.Sprintf(" in project %s, region %q", known.ProjectID, known.Region)
	}
	if ids := slices.Concat(known.PortIDs, strings.Fields(known.FloatingIPID)); len(ids) > 0 {
		text += "; by the last record " + strings.Join(ids, ", ")
	}
	if len(known.VolumeIDs) > 0 {
		text += "; volumes " + strings.Join(known.VolumeIDs, ", ") + " too"
	}
	return text
}

var _ cloud.Provider = Provider{}

package inventory

import (
	"context"
	"encoding/json"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Machine describes a Machine to the inventory. Nothing in it but the UID, and what an operator allows, is evidence that
// something in the cloud belongs to the Machine: its author wrote the rest.
type Machine struct {
	UID types.UID
	// ServerName is the name that the Machine's server has.
	ServerName string
	// ServerID is the ID of the server that spec.providerID names; empty: it names none. It says where to look, no more.
	ServerID string
	// Adopts is the ID of the server that an operator allows the Machine to take over; empty: none, or the annotation is not
	// guarded.
	Adopts string
	// Refusal is why the server that Adopts names may not be adopted; empty while nothing speaks against it. Adopt sets it.
	Refusal string
	// FloatingIPID is the ID of the floating IP that an annotation of machine-controller names; empty: none.
	FloatingIPID string
	// Recorded is where the Machine's server was last seen; zero: nothing is recorded.
	Recorded Site
	// Leaving is true while the Machine is being deleted; Joined once it has a Node.
	Leaving, Joined bool
}

// Machines holds the Machines that asked for their cloud side. Its methods are called while the inventory is locked: they
// must not call the inventory.
type Machines interface {
	// Get returns the Machine with that UID, and reports whether there is one.
	Get(uid types.UID) (Machine, bool)
	// Naming returns the UID of the Machine whose spec.providerID names a server; empty: none does.
	Naming(serverID string) types.UID
	// Called returns the UID of a Machine whose server has that name; empty: there is none.
	Called(serverName string) types.UID
}

// Do makes a call, as client.Session.Do does, with the credentials of one Machine.
type Do func(ctx context.Context, c client.Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error

// Record is what drover keeps in a Machine's status.providerStatus.
type Record struct {
	ServerID     string `json:"serverID"`
	FloatingIPID string `json:"floatingIPID"`
	cloud.ProviderStatus
}

// RecordOf returns the record of a Machine; zero when there is none.
func RecordOf(m *v1alpha1.Machine) Record {
	var r Record
	if s := m.Status.ProviderStatus; s == nil || json.Unmarshal(s.Raw, &r) != nil {
		return Record{}
	}
	return r
}

// Site returns where the server was made; zero when it is not recorded.
func (r *Record) Site() Site { return Site{r.ProjectID, r.Region} }

// ServerIDOf returns the ID of the server that spec.providerID names; empty when it names none.
func ServerIDOf(m *v1alpha1.Machine) string {
	return providerid.Server(ptr.Deref(m.Spec.ProviderID, ""))
}

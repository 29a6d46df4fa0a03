// Package record reads and writes the fields of a Machine that describe its resources in the cloud: spec.providerID,
// status.providerStatus and status.addresses. Each provider has its own format for the first two, which this package does not
// parse. The package makes no decisions, and has no client, clock or logger.
package record

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// ServerID returns the server that spec.providerID names; empty when it names no server.
func ServerID(provider cloud.Provider, m *v1alpha1.Machine) cloud.ServerID {
	return provider.ServerID(ptr.Deref(m.Spec.ProviderID, ""))
}

// HasPlace reports whether the status records the place where the cloud creates the Machine's resources. It returns true in a
// cloud with a single place, where there is nothing to record.
func HasPlace(m *v1alpha1.Machine, f *cloud.Facts) bool {
	return f.Place == nil || f.Place.MergeInto(m.Status.ProviderStatus) == m.Status.ProviderStatus
}

// WritePlace records the place where the Machine's resources are created. It changes nothing while that place is not known.
func WritePlace(m *v1alpha1.Machine, f *cloud.Facts) {
	if f.Place != nil {
		m.Status.ProviderStatus = f.Place.MergeInto(m.Status.ProviderStatus)
	}
}

// WriteServer records the provider's data about a server, and the server's addresses. It does nothing when s is nil. It keeps
// the recorded addresses while no new addresses are known.
func WriteServer(m *v1alpha1.Machine, s *cloud.Server) {
	if s == nil {
		return
	}
	if s.Record != nil {
		m.Status.ProviderStatus = s.Record.MergeInto(m.Status.ProviderStatus)
	}
	if len(s.Addresses) == 0 {
		return
	}
	addresses := slices.Clone(s.Addresses)
	slices.SortFunc(addresses, func(a, b corev1.NodeAddress) int {
		return strings.Compare(string(a.Type)+a.Address, string(b.Type)+b.Address)
	})
	m.Status.Addresses = addresses
}

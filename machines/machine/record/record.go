// Package record reads and writes the fields of a Machine that describe its resources in the cloud: spec.providerID,
// status.providerStatus and status.addresses. The first two have a format of the provider's own, which this package does not
// parse. It makes no decisions, and has no client, clock or logger.
package record

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// ServerID returns the server that spec.providerID names; empty when it names none.
func ServerID(provider cloud.Provider, m *v1alpha1.Machine) cloud.ServerID {
	return provider.ServerID(ptr.Deref(m.Spec.ProviderID, ""))
}

// HasPlace reports whether the status records where the cloud creates the Machine's resources. In a cloud with a single place
// there is nothing to record, and it returns true.
func HasPlace(m *v1alpha1.Machine, f *cloud.Facts) bool {
	return f.Place == nil || f.Place.MergeInto(m.Status.ProviderStatus) == m.Status.ProviderStatus
}

// WritePlace records where the Machine's resources are created. It changes nothing while that is not known.
func WritePlace(m *v1alpha1.Machine, f *cloud.Facts) {
	if f.Place != nil {
		m.Status.ProviderStatus = f.Place.MergeInto(m.Status.ProviderStatus)
	}
}

// WriteServer records the provider's data about a server, and its addresses. It does nothing when s is nil, and keeps the
// addresses while no new ones are known.
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

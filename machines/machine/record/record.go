// Package record reads and writes what a Machine's object holds of its resources in the cloud: spec.providerID,
// status.providerStatus and status.addresses. It does not know the form of the first two, which are the provider's own, and
// decides nothing by them. It has no client, clock or logger.
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

// HasPlace reports whether the status records where the cloud makes the Machine's resources. A cloud with a single place has
// nothing to record.
func HasPlace(m *v1alpha1.Machine, f *cloud.Facts) bool {
	return f.Place == nil || f.Place.MergeInto(m.Status.ProviderStatus) == m.Status.ProviderStatus
}

// WritePlace records where the Machine's resources are made. It changes nothing while that is not known.
func WritePlace(m *v1alpha1.Machine, f *cloud.Facts) {
	if f.Place != nil {
		m.Status.ProviderStatus = f.Place.MergeInto(m.Status.ProviderStatus)
	}
}

// WriteServer records what the provider wants remembered of a server, and its addresses; nothing when s is nil. Addresses stay
// while no others are known.
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

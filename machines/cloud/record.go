package cloud

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// RecordedServer returns the server that spec.providerID names; empty when it names no server.
func RecordedServer(provider Provider, m *v1alpha1.Machine) ServerID {
	return provider.ServerID(ptr.Deref(m.Spec.ProviderID, ""))
}

// HasRecordedPlace reports whether the status records the place where the cloud creates the Machine's resources. It returns true in a
// cloud with a single place, where there is nothing to record.
func HasRecordedPlace(m *v1alpha1.Machine, f *Facts) bool {
	return f.Place == nil || f.Place.MergeInto(m.Status.ProviderStatus) == m.Status.ProviderStatus
}

// RecordPlace records the place where the Machine's resources are created. It changes nothing while that place is not known.
func RecordPlace(m *v1alpha1.Machine, f *Facts) {
	if f.Place != nil {
		m.Status.ProviderStatus = f.Place.MergeInto(m.Status.ProviderStatus)
	}
}

// RecordServer records the provider's data about a server, and the server's addresses. It does nothing when s is nil. It keeps
// the recorded addresses while no new addresses are known.
func RecordServer(m *v1alpha1.Machine, s *Server) {
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

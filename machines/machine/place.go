package machine

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// place puts into the status in which project and region the Machine's resources are made. It does nothing while that is not
// known.
func (p *pass) place() {
	known := recordOf(p.m)
	if p.facts.cloud.ProjectID == "" {
		return
	}
	known.ProjectID, known.Region = p.facts.cloud.ProjectID, p.facts.cloud.Region
	if raw, err := json.Marshal(known); err == nil {
		p.m.Status.ProviderStatus = &runtime.RawExtension{Raw: raw}
		p.facts.placed = true
	}
}

// recordsPlace reports whether the status records the project and region that the cloud reports. A cloud without projects reports
// none.
func recordsPlace(m *v1alpha1.Machine, f *cloud.Facts) bool {
	known := recordOf(m)
	return f.ProjectID == "" || known.ProjectID == f.ProjectID && known.Region == f.Region
}

// recordsMore reports whether status.providerStatus holds more than a place: then a server was made once.
func recordsMore(m *v1alpha1.Machine) bool {
	if m.Status.ProviderStatus == nil {
		return false
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(m.Status.ProviderStatus.Raw, &all) != nil {
		return true
	}
	delete(all, "projectID")
	delete(all, "region")
	return len(all) > 0
}

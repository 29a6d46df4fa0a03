package survey

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/adoption"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// group is a deployment, or a set without a deployment, for which drover would make Machines.
type group struct {
	// entry is the index of the group's entry in the report.
	entry    int
	name     string
	template *v1alpha1.MachineTemplateSpec
	// next is the next Machine of the group. It does not exist.
	next *v1alpha1.Machine
}

// nextMachines adds to each group's entry whether the group's next Machine would get a server.
func (o *Options) nextMachines(ctx context.Context, report *adoption.Report, groups []group) error {
	machines := make([]*v1alpha1.Machine, len(groups))
	for i := range groups {
		machines[i] = groups[i].next
	}
	forecasts, err := o.forecasts(ctx, report, machines)
	if err != nil {
		return err
	}
	for i, g := range groups {
		o.Reads.begin(userOf(g.next))
		names := o.Names(ctx, g.next.Namespace, g.template)
		if !report.Entries[g.entry].AddNext(forecasts[i], names) {
			report.Incomplete = append(report.Incomplete, fmt.Sprintf("the names in the provider spec of %s: %v", g.name, names))
		}
	}
	return nil
}

// userOf names the Machine, or the group of a Machine that does not exist yet, for messages.
func userOf(m *v1alpha1.Machine) string {
	if owner := metav1.GetControllerOf(m); m.ResourceVersion == "" && owner != nil {
		return "a new Machine of " + m.Namespace + "/" + owner.Name
	}
	return "Machine " + m.Namespace + "/" + m.Name
}

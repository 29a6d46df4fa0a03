package survey

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/adoption"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/rollout"
)

// askEvery is the interval at which the survey asks whether the cloud's inventory is complete.
const askEvery = 200 * time.Millisecond

// Forecaster predicts what the Machine controller would do with a Machine.
type Forecaster interface {
	Of(ctx context.Context, m *v1alpha1.Machine) (machine.Forecast, error)
}

// Options configure a survey.
type Options struct {
	// Client reads the cluster with the Machines. It reads from the API server itself, without a cache, and creates access reviews.
	// Target does the same in the cluster with the Nodes.
	Client, Target client.Client
	// Forecaster and Inventory are those of observe mode, which writes nothing.
	Forecaster Forecaster
	Inventory  cloud.Inventory
	// Names looks up the names in a template's provider spec as the creation of a server does, and returns the error with which the
	// creation would fail.
	Names func(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) error
	// Reads notes what Forecaster and Names read.
	Reads *Reads
	Clock clock.PassiveClock
	// Patience limits how long the survey waits for the clouds to list their servers.
	Patience time.Duration
	// Lease is the lease of machine-controller; empty means that drover does not acquire it. Holder is the identity under which drover
	// holds the lease.
	Lease  types.NamespacedName
	Holder string
	// Kinds, Policies and Roles are the shipped manifests.
	Kinds, Policies, Roles []*unstructured.Unstructured
	// TargetRoles are the roles that drover needs in the cluster with the Nodes, when the Machines are in another cluster.
	TargetRoles []*unstructured.Unstructured
	// Account is the user name of drover's service account.
	Account string
}

// objects holds the objects of a cluster.
type objects struct {
	machines    v1alpha1.MachineList
	sets        v1alpha1.MachineSetList
	deployments v1alpha1.MachineDeploymentList
}

// Run reads the cluster and its clouds, and returns what drover would do. It returns an error when the Machines, sets or deployments
// cannot be read.
func Run(ctx context.Context, o Options) (*adoption.Report, error) {
	var all objects
	for _, list := range []client.ObjectList{&all.machines, &all.sets, &all.deployments} {
		if err := o.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	report := &adoption.Report{}
	groups := o.groups(report, &all)
	if err := o.machines(ctx, report, &all); err != nil {
		return nil, err
	}
	if err := o.nextMachines(ctx, report, groups); err != nil {
		return nil, err
	}
	o.Reads.begin("")
	o.orphans(ctx, report, &all)
	o.cluster(ctx, report)
	report.Sort()
	return report, nil
}

// groups reports the deployments and sets. It returns the deployments, and the sets without a deployment, for which drover would make
// Machines.
func (o *Options) groups(report *adoption.Report, all *objects) (groups []group) {
	now := o.Clock.Now()
	machines := map[types.UID][]*v1alpha1.Machine{}
	for i := range all.machines.Items {
		m := &all.machines.Items[i]
		if ref := metav1.GetControllerOf(m); ref != nil {
			machines[ref.UID] = append(machines[ref.UID], m)
		}
	}
	sets := map[types.UID][]rollout.SetState{}
	for i := range all.sets.Items {
		s := &all.sets.Items[i]
		if ref := metav1.GetControllerOf(s); ref != nil {
			sets[ref.UID] = append(sets[ref.UID], rollout.SetState{Set: s, Machines: machines[s.UID]})
		}
		report.Entries = append(report.Entries, adoption.OfSet(s, machines[s.UID], now))
		if metav1.GetControllerOf(s) == nil && makes(report) {
			groups = append(groups, group{len(report.Entries) - 1, s.Namespace + "/" + s.Name, &s.Spec.Template, adoption.NextMachine(s, &s.Spec.Template)})
		}
	}
	for i := range all.deployments.Items {
		d := &all.deployments.Items[i]
		// A deployment with unreadable bounds counts as one without bounds, so the group keeps its size.
		bounds, _ := v1alpha1.ParseBounds(d.Annotations)
		report.Entries = append(report.Entries, adoption.OfDeployment(rollout.Snapshot{Deployment: d, Bounds: bounds, Sets: sets[d.UID], Now: now}))
		if s := adoption.NewestSet(sets[d.UID]); s != nil && makes(report) {
			groups = append(groups, group{len(report.Entries) - 1, d.Namespace + "/" + d.Name, &d.Spec.Template, adoption.NextMachine(s, &d.Spec.Template)})
		}
	}
	return groups
}

// makes reports whether drover would make Machines of the group in the report's last entry, now or later.
func makes(report *adoption.Report) bool {
	switch report.Entries[len(report.Entries)-1].Outcome {
	case adoption.Kept, adoption.Made, adoption.Rolled, adoption.Waits:
		return true
	}
	return false
}

// machines reports the Machines, once the clouds have listed their servers.
func (o *Options) machines(ctx context.Context, report *adoption.Report, all *objects) error {
	machines := make([]*v1alpha1.Machine, len(all.machines.Items))
	for i := range all.machines.Items {
		machines[i] = &all.machines.Items[i]
	}
	forecasts, err := o.forecasts(ctx, report, machines)
	if err != nil {
		return err
	}
	for i, m := range machines {
		report.Entries = append(report.Entries, adoption.OfMachine(m, forecasts[i]))
	}
	return nil
}

// forecasts returns the forecast for each Machine, once the clouds have listed their servers. When a cloud has not listed them in time, it
// says so in the report.
func (o *Options) forecasts(ctx context.Context, report *adoption.Report, machines []*v1alpha1.Machine) ([]machine.Forecast, error) {
	forecasts := make([]machine.Forecast, len(machines))
	var failed error
	look := func(ctx context.Context) (bool, error) {
		settled := true
		for i, m := range machines {
			if forecasts[i].Step != "" && !pending(forecasts[i]) {
				continue
			}
			o.Reads.begin(userOf(m))
			if forecasts[i], failed = o.Forecaster.Of(ctx, m); failed != nil {
				return false, failed
			}
			settled = settled && !pending(forecasts[i])
		}
		return settled, nil
	}
	err := wait.PollUntilContextTimeout(ctx, askEvery, o.Patience, true, look)
	switch {
	case failed != nil:
		return nil, failed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		report.Incomplete = append(report.Incomplete, fmt.Sprintf("the servers of some Machines: a cloud has not listed them within %s", o.Patience))
	}
	return forecasts, nil
}

// pending reports whether a forecast may change because the cloud has not listed its servers yet.
func pending(f machine.Forecast) bool {
	return f.Reason == lifecycle.ReasonNotSynced || f.Unsettled
}

// orphans reports the cloud resources that have the owner tags of this cluster and no Machine.
func (o *Options) orphans(ctx context.Context, report *adoption.Report, all *objects) {
	living := map[types.UID]bool{}
	for i := range all.machines.Items {
		living[all.machines.Items[i].UID] = true
	}
	for _, project := range o.Inventory.Tagged(ctx) {
		if project.Rest {
			// Each Machine has a forecast by now, and drover has learned its project. A project that drover does not know therefore
			// has no Machines, and needs no entry.
			continue
		}
		if project.Unknown != "" {
			report.Incomplete = append(report.Incomplete, fmt.Sprintf("the resources of project %s that have no Machine: %s", project.Name, project.Unknown))
			continue
		}
		for _, r := range project.Resources {
			if e, ok := adoption.OfResource(r, living[r.Machine]); ok {
				report.Entries = append(report.Entries, e)
			}
		}
	}
}

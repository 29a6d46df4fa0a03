package adoption

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

// row is the outcome for a Machine, with an explanation. Each row belongs to a step or a reason with which the Machine controller's
// forecast for the Machine can end.
type row struct {
	outcome Outcome
	why     string
}

// steps maps each step with which a forecast can end to its outcome. The map lacks the steps of a deletion, and the steps whose
// outcome depends on the reason.
var steps = map[lifecycle.Step]row{
	lifecycle.Fail:          {Refused, "its spec or credentials cannot be used"},
	lifecycle.MakeUserData:  {Made, "it has no server: drover creates one"},
	lifecycle.Prepare:       {Made, "it has no server: drover creates one"},
	lifecycle.EnsureServer:  {Made, "it has no server: drover creates one"},
	lifecycle.ReplaceServer: {Deleted, "its server is in ERROR: drover deletes it and creates another"},
	lifecycle.StartServer:   {Kept, "its server is shut down: drover starts it once"},
	lifecycle.EndStart:      {Kept, "its server is shut down and could not be started"},
	lifecycle.AwaitNode:     {Waits, "its server has no Node yet"},
	lifecycle.GiveUp:        {Deleted, "its server has no Node and is older than the join timeout: the Machine is replaced unless its Node registers within one join timeout after drover starts"},
	lifecycle.LoseServer:    {Deleted, "its server is gone: the Machine is replaced"},
}

// waits maps each reason why drover waits or does nothing to the outcome for the Machine.
var waits = map[string]row{
	lifecycle.ReasonPaused:          {Left, "it is paused"},
	lifecycle.ReasonOtherController: {Left, "its label " + v1alpha1.LabelController + " names another program"},
	lifecycle.ReasonForeign:         {Left, "its server belongs to another owner"},
	lifecycle.ReasonServerUnknown:   {Left, "drover does not know its server"},
	lifecycle.ReasonNotSynced:       {Left, "the cloud has not answered"},
	lifecycle.ReasonInitializers:    {Left, "it has the annotation " + v1alpha1.AnnotationInitializers},
	lifecycle.ReasonHeld:            {Left, "so many servers have vanished at once that drover replaces it only when its Node is not Ready; delete the Machine to replace it now"},
	lifecycle.ReasonServerDeleting:  {Deleted, "its server is being deleted by another client: the Machine is replaced once the server is gone"},
	lifecycle.ReasonNodeMissing:     {Waits, "its Node does not exist, though its server runs: the Machine is replaced after the health timeout"},
	lifecycle.ReasonBackOff:         {Waits, "it has no server, and the last attempt to create one failed"},
	lifecycle.ReasonGroupBackoff:    {Waits, "it has no server, and no servers can be created for its group at present"},
	lifecycle.ReasonJoinsFail:       {Waits, "it has no server, and the last servers of its group did not join"},
	lifecycle.ReasonJoined:          {Kept, ""},

	string(fault.CodeBootstrapPending): {Waits, "it has no server, and its user data does not exist yet"},
}

// OfMachine predicts what drover would do with a Machine.
func OfMachine(m *v1alpha1.Machine, f machine.Forecast) Entry {
	e := Entry{Kind: "Machine", Namespace: m.Namespace, Name: m.Name, Node: f.Node}
	if f.Server != nil {
		e.Server = f.Server.ID
	}
	if metav1.GetControllerOfNoCopy(m) == nil {
		e.Warnings = slices.Concat(f.Warnings, m.Spec.WithoutEffect("spec"))
	}
	for _, finalizer := range m.Finalizers {
		switch {
		case slices.Contains(lifecycle.OwnFinalizers, finalizer):
		case lifecycle.Removes(finalizer):
			e.Warnings = append(e.Warnings, fmt.Sprintf("metadata.finalizers: %s is removed when the Machine has been deleted; what it stands for must be ended by hand", finalizer))
		default:
			e.Warnings = append(e.Warnings, fmt.Sprintf("metadata.finalizers: %s keeps the deleted Machine until another program removes it", finalizer))
		}
	}
	r := rowOf(m, f)
	e.Outcome, e.Why = r.outcome, r.why
	if f.Detail != "" {
		e.Why = strings.TrimPrefix(r.why+": "+f.Detail, ": ")
	}
	return e
}

func rowOf(m *v1alpha1.Machine, f machine.Forecast) row {
	if f.Reason == lifecycle.ReasonPaused {
		return waits[f.Reason]
	}
	if m.DeletionTimestamp != nil {
		if f.Step == lifecycle.LetGo {
			return row{Deleted, "it is being deleted already, and is released without its cloud: " + f.Reason}
		}
		return row{Deleted, fmt.Sprintf("it is being deleted already: drover continues with step %s", f.Step)}
	}
	if r, known := steps[f.Step]; known {
		return r
	}
	if r, known := waits[f.Reason]; known {
		return r
	}
	return row{Left, fmt.Sprintf("%s (%s)", f.Step, f.Reason)}
}

// OfResource predicts what drover would do with a cloud resource that has the owner tags of this cluster. living is true when the
// resource's Machine exists. Then OfResource returns false, because the Machine's own entry covers the resource. The outcome is Left: the
// orphan collector has not seen the end of that Machine, so it deletes the resource only when a person confirms it.
func OfResource(r cloud.Resource, living bool) (e Entry, ok bool) {
	if living {
		return Entry{}, false
	}
	e = Entry{
		Kind: string(r.Kind), Name: r.ID, Outcome: Left,
		Why: fmt.Sprintf("it was made for Machine %s, which does not exist: the orphan collector reports it, and deletes it when a person confirms that", r.Machine),
	}
	if r.Name != "" {
		e.Name = r.Name + " (" + r.ID + ")"
	}
	return e, true
}

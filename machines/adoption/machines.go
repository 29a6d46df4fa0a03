package adoption

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

// row is what a step of the Machine controller means to the Machine.
type row struct {
	outcome Outcome
	why     string
}

// steps are the steps at which a forecast ends, but for those of a deletion and those that depend on their reason.
var steps = map[lifecycle.Step]row{
	lifecycle.Fail:          {Refused, "its spec or credentials cannot be used"},
	lifecycle.MakeUserData:  {Made, "it has no server: one is made"},
	lifecycle.Prepare:       {Made, "it has no server: one is made"},
	lifecycle.EnsureServer:  {Made, "it has no server: one is made"},
	lifecycle.ReplaceServer: {Deleted, "its server is in ERROR: it is deleted and made again"},
	lifecycle.StartServer:   {Kept, "its server is shut down: it is started once"},
	lifecycle.EndStart:      {Kept, "its server is shut down and could not be started"},
	lifecycle.AwaitNode:     {Waits, "its server has no Node yet"},
	lifecycle.GiveUp:        {Deleted, "its server has no Node and is older than the join timeout: the Machine is replaced unless its Node comes within that time of the start of drover"},
	lifecycle.LoseServer:    {Deleted, "its server is gone: the Machine is replaced"},
}

// waits are the reasons for which drover waits, or does nothing.
var waits = map[string]row{
	lifecycle.ReasonPaused:          {Left, "it is paused"},
	lifecycle.ReasonOtherController: {Left, "its label " + v1alpha1.LabelController + " names another program"},
	lifecycle.ReasonForeign:         {Left, "its server belongs to somebody else"},
	lifecycle.ReasonServerUnknown:   {Left, "nothing is known of its server"},
	lifecycle.ReasonNotSynced:       {Left, "the cloud has not answered"},
	lifecycle.ReasonInitializers:    {Left, "it has the annotation " + v1alpha1.AnnotationInitializers},
	lifecycle.ReasonHeld:            {Left, "so many servers are gone at once that nothing is done before an operator confirms it"},
	lifecycle.ReasonServerDeleting:  {Deleted, "somebody deletes its server: the Machine is replaced once that is gone"},
	lifecycle.ReasonNodeMissing:     {Waits, "its Node is not there, though its server lives: it is replaced after the health timeout"},
	lifecycle.ReasonBackOff:         {Waits, "it has no server, and its last attempt has failed"},
	lifecycle.ReasonGroupBackoff:    {Waits, "it has no server, and those of its group cannot be made at present"},
	lifecycle.ReasonJoinsFail:       {Waits, "it has no server, and the last ones of its group did not join"},
	lifecycle.ReasonJoined:          {Kept, ""},
}

// OfMachine returns what would become of a Machine.
func OfMachine(m *v1alpha1.Machine, f machine.Forecast) Entry {
	e := Entry{Kind: "Machine", Namespace: m.Namespace, Name: m.Name, Node: f.Node}
	if f.Server != nil {
		e.Server = f.Server.ID
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
			return row{Deleted, "it is being deleted already, and is let go: " + f.Reason}
		}
		return row{Deleted, fmt.Sprintf("it is being deleted already: drover goes on (%s)", f.Step)}
	}
	if r, known := steps[f.Step]; known {
		return r
	}
	if r, known := waits[f.Reason]; known {
		return r
	}
	return row{Left, fmt.Sprintf("%s (%s)", f.Step, f.Reason)}
}

// OfResource returns what would become of something in the cloud that has this cluster's marks. living reports whether its Machine
// exists; then the Machine's own entry says it all, and ok is false.
func OfResource(r cloud.Resource, living, deletes bool) (e Entry, ok bool) {
	if living {
		return Entry{}, false
	}
	e = Entry{Kind: string(r.Kind), Name: r.ID, Outcome: Left, Why: fmt.Sprintf("it was made for Machine %s, which does not exist; it is only reported", r.Machine)}
	if deletes {
		e.Outcome, e.Why = Deleted, fmt.Sprintf("it was made for Machine %s, which does not exist: the collector of orphans deletes it", r.Machine)
	}
	if r.Name != "" {
		e.Name = r.Name + " (" + r.ID + ")"
	}
	return e, true
}

package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// End is the end of a Machine: drover has observed that the API server deleted the Machine, or a person has confirmed that it is gone.
type End struct {
	// UID is the UID of the Machine; for a Node that does not show one, the UID of the Node.
	UID types.UID `json:"uid"`
	// Place is [cloud.Remembered].Place of the Machine; empty when it is not known.
	Place string `json:"place,omitempty"`
	// Time is when drover observed the end, or read the confirmation. Ordered is when the deletion of the Machine was requested, on the
	// clock of the API server, and not later than Time.
	Time    time.Time `json:"time"`
	Ordered time.Time `json:"ordered,omitzero"`
	// Confirmed is true when a person has confirmed the end.
	Confirmed bool `json:"confirmed,omitempty"`
}

// Ends are the known ends of Machines, by UID.
type Ends map[types.UID]End

// kept is how long an end is known, and how much longer when something of the Machine may be left. A create request whose answer was
// lost may be carried out that late.
const kept = 24 * time.Hour

// crdMargin is how much later than the creation of the CRDs a deletion must be requested. The creation times are whole seconds, and the
// clock of the API server may differ a little.
const crdMargin = 10 * time.Second

// Left returns the UIDs of the Machines of all resources and Nodes that are known.
func Left(projects []cloud.Project, nodes []Node) map[types.UID]bool {
	left := map[types.UID]bool{}
	for i := range projects {
		for k := range projects[i].Resources {
			left[projects[i].Resources[k].Machine] = true
		}
	}
	for i := range nodes {
		left[nodes[i].owner()], left[nodes[i].UID] = true, true
	}
	return left
}

// over returns the ends that have no meaning any more: nothing is left of the Machine for long, or the Machine exists, for example
// because etcd was restored.
func (j *judgement) over() (uids []types.UID) {
	complete := j.complete()
	for uid, end := range j.Ends {
		if j.living[uid] || complete && !j.Left[uid] && j.Now.Sub(end.Time) >= kept {
			uids = append(uids, uid)
		}
	}
	return uids
}

// prove sets the end of an orphan's Machine. When the end does not prove that the orphan may be deleted now, prove also sets the reason.
func (j *judgement) prove(o *Orphan) {
	uid := o.Machine
	if o.Kind == KindNode {
		// A person who has named the Node has confirmed the Node alone. The UID of a Machine that it shows proves nothing then, because its
		// kubelet chooses it.
		if uid = o.Node.UID; !j.Ends[uid].Confirmed {
			uid = o.Node.owner()
		}
	}
	var known bool
	o.End, known = j.Ends[uid]
	switch {
	case !known:
		o.Why, o.Unconfirmed = "drover has not seen the end of its Machine", true
	case o.End.Confirmed:
	case o.End.Ordered.Sub(j.Defined) < crdMargin:
		o.Why, o.Unconfirmed = "its Machine may have ended only because a CRD was deleted", true
	case j.Now.Sub(o.End.Time) < j.Age:
		o.Why = fmt.Sprintf("its Machine ended less than %s ago", j.Age)
	}
	o.End.UID = uid
}

// Confirm returns the ends that the words of a person confirm, and the words that name no orphan that a confirmation can help. A word is the
// ID of a resource or the UID of a Machine, which stand for all that the Machine has left, the name of a Node, which stands for that
// Node alone, or a [Project]. A project stands for those of its orphans that are in the report that the person has read.
func (v *Verdict) Confirm(words []string, now time.Time, report string) (confirmed Ends, unknown []string) {
	shown := strings.Fields(report)
	confirmed = Ends{}
	for _, word := range words {
		known := false
		for i := range v.Orphans {
			o := &v.Orphans[i]
			uid := o.End.UID
			if o.Kind == KindNode && word == o.ID {
				uid = o.Node.UID
			}
			if !o.Blocked && uid != "" && (word == o.ID || word == string(o.Machine) || o.Kind != KindNode && word == Project(&o.Resource) && slices.Contains(shown, o.ID)) {
				known, confirmed[uid] = true, End{UID: uid, Place: o.End.Place, Time: now, Confirmed: true}
			}
		}
		if !known {
			unknown = append(unknown, word)
		}
	}
	return confirmed, unknown
}

// Project returns the word that stands for the project of a resource in reports and confirmations. It contains no space.
func Project(r *cloud.Resource) string {
	return "project/" + strings.ReplaceAll(r.Place, " ", "/")
}

// owner returns the UID of the Node's Machine, or of the Node itself if it does not show one.
func (n *Node) owner() types.UID { return cmp.Or(n.OwnedBy, n.UID) }

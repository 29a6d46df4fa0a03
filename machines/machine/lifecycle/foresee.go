package lifecycle

// mostForeseen bounds the number of predicted steps. Between two steps that change a server or a Node, no Machine takes more
// steps than this.
const mostForeseen = 8

// Foresee returns the steps that a Machine would take, up to the first step that waits or that changes a server or a Node.
// The earlier steps only record what exists. Foresee changes the facts as those earlier steps would.
func Foresee(f *Facts) []Decision {
	var all []Decision
	for range mostForeseen {
		d := Next(f)
		all = append(all, d)
		if !f.assume(d.Step) {
			break
		}
	}
	return all
}

// assume changes the facts as the step s would, if s only records what exists. It returns false for any other step.
func (f *Facts) assume(s Step) bool {
	switch s {
	case AddFinalizers:
		f.Finalizers, f.AnyFinalizer, f.ServerFinalizer, f.CloudFinalizer = true, true, true, true
	case RecordPlace:
		f.Placed = true
	case RecordServer:
		f.Named, f.Mismatched, f.HadServer = true, false, true
	case JoinNode:
		f.Joined, f.Reregistered = true, false
	case SyncNode:
		f.Synced = true
	default:
		return false
	}
	return true
}

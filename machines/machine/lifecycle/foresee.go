package lifecycle

// mostForeseen bounds the number of predicted steps. No Machine takes more steps between two that change a server or a Node.
const mostForeseen = 8

// Foresee returns the steps that a Machine would take, up to the first one that changes a server or a Node, or that waits. The
// steps before only record what exists. Foresee changes the facts as those steps would.
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

// assume changes the facts as a step would that only records what exists. It returns false for any other step.
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

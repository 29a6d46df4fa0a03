package lifecycle

// mostForeseen bounds the number of predicted steps. Between two steps that change a server or a Node, no Machine takes more
// steps than this.
const mostForeseen = 8

// Foresee returns the first step of a Machine that waits or that changes a server or a Node. The earlier steps only record what
// exists. Foresee changes the facts as those earlier steps would.
func Foresee(f *Facts) Decision {
	d := Next(f)
	for n := 1; n < mostForeseen && f.assume(d.Step); n++ {
		d = Next(f)
	}
	return d
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

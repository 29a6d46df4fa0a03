package lifecycle

// mostForeseen bounds how many steps are foreseen. No life has more steps that change neither a server nor a Node between two that do.
const mostForeseen = 8

// Foresee returns the steps that a Machine would go through, up to the first one that changes a server or a Node for good, or
// that waits. The steps before it only write down what is there. The facts are changed as these steps would change them.
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

// assume changes the facts as a step does that only writes down what is there. It reports false for any other step.
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

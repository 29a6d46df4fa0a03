package backoff

// maxJoins bounds the outcomes of joins that a group remembers.
const maxJoins = 10

// The outcomes, as status.recentJoins holds them.
const (
	joined     = "j"
	joinFailed = "f"
)

// withJoin returns the outcomes with one added. While no join has failed it returns nothing, so that a healthy group costs no
// write. Before the first failure stand as many joins as the group has nodes.
func withJoin(recent string, ok bool, nodes int) string {
	outcome := joinFailed
	if ok {
		outcome = joined
	}
	switch {
	case ok && recent == "":
		return ""
	case recent == "":
		for range min(nodes, maxJoins-1) {
			recent += joined
		}
	}
	recent += outcome
	recent = recent[max(0, len(recent)-maxJoins):]
	for _, c := range recent {
		if string(c) == joinFailed {
			return recent
		}
	}
	return ""
}

// joinsFail reports whether at least half of the recent joins have failed (CAPI-26).
func joinsFail(recent string) bool {
	failed := 0
	for _, c := range recent {
		if string(c) == joinFailed {
			failed++
		}
	}
	return failed > 0 && 2*failed >= len(recent)
}

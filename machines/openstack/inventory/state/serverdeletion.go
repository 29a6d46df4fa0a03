package state

import "time"

const (
	// forceAfter is how many plain delete requests drover sends for a server. The fourth and later requests (from 3.5 min after
	// the first) are forced deletes, which Nova carries out whatever the server's state is.
	forceAfter = 3
	// stuckAfter is how long a deletion may take before it counts as stuck (CAPI-44).
	stuckAfter = 10 * time.Minute
)

// Deletion is a server whose deletion must be requested now. Force is true when plain requests had no effect.
type Deletion struct {
	ServerID string
	Force    bool
}

// isDeletionDue reports whether the server's deletion may be requested now: the back-off after the last request is over, which is
// 30 s and doubles to 5 min.
func (k *server) isDeletionDue(now time.Time) bool {
	return k.asked.IsZero() || now.Sub(k.asked) >= deletionBackoff(k.times)
}

// nextDeletion returns the request for the server's deletion.
func (k *server) nextDeletion() Deletion { return Deletion{k.ID, k.times >= forceAfter} }

// deletionRequested records that a request to delete the server was accepted.
func (k *server) deletionRequested(now time.Time) {
	k.asked = now
	if k.times++; k.firstAsked.IsZero() {
		k.firstAsked = now
	}
}

// isStuck reports whether the server still exists long after its deletion was first requested.
func (k *server) isStuck(now time.Time) bool {
	return !k.firstAsked.IsZero() && now.Sub(k.firstAsked) > stuckAfter
}

// deletionBackoff returns the time between two requests to delete the same server.
func deletionBackoff(times int) time.Duration {
	wait := 30 * time.Second
	for range min(times, 5) - 1 {
		wait *= 2
	}
	return min(wait, 5*time.Minute)
}

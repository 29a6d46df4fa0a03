package kube

import "testing"

// ForTest starts a cluster for one test and stops it at the test's end. If the test has failed, its
// output includes the last lines of every component's log.
func ForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Log == nil {
		o.Log = t.Output()
	}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.processes {
				t.Logf("%s:\n%s", p.name, p.tail())
			}
		}
		c.Stop()
	})
	return c
}

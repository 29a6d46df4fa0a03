package kube

import "testing"

// ForTest starts a cluster for one test and stops it at the test's end. When
// the test has failed by then, the last lines of every component's log are in
// its output.
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

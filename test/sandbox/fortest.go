package sandbox

import "testing"

// ForTest starts a sandbox for a test and stops it at the test's end. If the test has failed, the output has the last lines of
// drover's and the autoscaler's logs and the servers' journals.
func ForTest(t testing.TB, o Options) *Sandbox {
	t.Helper()
	if o.Log == nil {
		o.Log = t.Output()
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"drover", "autoscaler"} {
				t.Logf("%s:\n%s", name, Tail(s.LogFile(name)))
			}
			for id, text := range s.Journals() {
				t.Logf("journal of %s:\n%s", id, text)
			}
		}
		s.Stop()
	})
	return s
}

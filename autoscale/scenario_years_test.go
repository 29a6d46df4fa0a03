package autoscale

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// An autoscaler reads its files once, at its start. In this test an autoscaler starts every five days for 20 years. One replica
// of drover checks the Secrets every five days, and a second one once a month. Each autoscaler and both replicas must accept
// each other's certificates for a year from the autoscaler's start, or until the authority ends after 15 years. Autoscalers that start
// later connect again.
func TestAutoscalersCanConnectDuringTwentyYearsOfRenewals(t *testing.T) {
	w := newWorld(t, fake.NewFakeClient())
	w.look()
	second := w.another()
	// running maps the content of the TLS files to the last autoscaler that has read this content at its start.
	type autoscaler struct {
		mounted
		started time.Time
	}
	end := origin.Add(authorityLife)
	running, written, last := map[string]autoscaler{}, map[string]int{}, map[string]string{}
	for step := range 20 * 365 / 5 {
		w.clock.SetTime(origin.Add(time.Duration(step) * 5 * day))
		w.look()
		if step%6 == 0 || !w.clock.Now().Before(end) {
			if err := second.look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ours, theirs := w.secret(own).Data, w.secret(autoscalers).Data
		running[string(theirs["tls.crt"])+string(theirs["ca.crt"])] = autoscaler{w.mounted(), w.clock.Now()}
		for files, a := range running {
			age := w.clock.Now().Sub(a.started)
			if age > year || a.started.Before(end) && !w.clock.Now().Before(end) {
				delete(running, files)
				continue
			}
			for _, k := range []*Keeper{w.keeper, second} {
				if err := w.connects(a.mounted, k); err != nil {
					t.Fatalf("%v: an autoscaler that started %v ago is not connected: %v", w.clock.Now(), age, err)
				}
			}
		}
		for what, content := range map[string][]byte{"authority": ours["ca.crt"], "server": ours["tls.crt"], "autoscaler": theirs["tls.crt"]} {
			if last[what] != string(content) {
				written[what]++
				last[what] = string(content)
			}
		}
	}
	if written["authority"] != 2 || written["server"] < 28 || written["server"] > 33 || written["autoscaler"] < 9 || written["autoscaler"] > 12 {
		t.Errorf("written: %v", written)
	}
}

package certs

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// An autoscaler reads its files once, at its start. In this test an autoscaler starts every five days for 25 years. One replica
// of drover checks the Secrets every five days, and a second one once a month. Each autoscaler and both replicas must accept
// each other's certificates for a year from the autoscaler's start.
func TestAutoscalersCanConnectDuringTwentyFiveYearsOfRenewals(t *testing.T) {
	w := newWorld(t, fake.NewFakeClient())
	w.look()
	second := w.another()
	// running maps the content of the TLS files to the last autoscaler that has read this content at its start.
	type autoscaler struct {
		mounted
		started time.Time
	}
	running, written, last := map[string]autoscaler{}, map[string]int{}, map[string]string{}
	for step := range 25 * 365 / 5 {
		w.clock.SetTime(origin.Add(time.Duration(step) * 5 * day))
		w.look()
		if step%6 == 0 {
			if err := second.look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ours, theirs := w.secret(own).Data, w.secret(autoscalers).Data
		running[string(theirs["tls.crt"])+string(theirs["ca.crt"])] = autoscaler{w.mounted(), w.clock.Now()}
		for files, a := range running {
			age := w.clock.Now().Sub(a.started)
			if age > year {
				delete(running, files)
				continue
			}
			for _, k := range []*Keeper{w.keeper, second} {
				if err := w.connects(a.mounted, k); err != nil {
					t.Fatalf("%v: an autoscaler that started %v ago is not connected: %v", w.clock.Now(), age, err)
				}
			}
		}
		for what, content := range map[string][]byte{"authorities": ours["ca.crt"], "server": ours["tls.crt"], "autoscaler": theirs["tls.crt"]} {
			if last[what] != string(content) {
				written[what]++
				last[what] = string(content)
			}
		}
	}
	// ca.crt is written four times: at the start, when a new authority is added after 10 and after 20 years, and when the
	// expired authority is removed after 15 years.
	if written["authorities"] != 4 || written["server"] < 36 || written["server"] > 39 || written["autoscaler"] < 12 || written["autoscaler"] > 14 {
		t.Errorf("written: %v", written)
	}
}

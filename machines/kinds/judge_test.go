package kinds

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inPlace are drover's definitions as they are after an installation; change alters those that it names.
func inPlace(change map[string]func(*definition)) []definition {
	var all []definition
	for _, name := range Names {
		d := definition{name: name}
		if c := change[name]; c != nil {
			c(&d)
		}
		all = append(all, d)
	}
	return all
}

func TestJudge(t *testing.T) {
	going := func(d *definition) { d.going = true }
	allowedGoing := func(d *definition) { d.going, d.allowed = true, true }
	allowed := func(d *definition) { d.allowed = true }
	missing := func(d *definition) { d.missing = true }
	for _, tt := range []struct {
		name   string
		change map[string]func(*definition)
		says   []string
	}{
		{"Machines may go while all definitions are in place (F-42)", nil, nil},
		{"an annotation alone changes nothing (F-42)", map[string]func(*definition){machines: allowed}, nil},
		{"no Machine goes while the definition of Machines is being deleted (F-42)", map[string]func(*definition){machines: going},
			[]string{"being deleted: machines.cluster.k8s.io", "kubectl annotate crd machines.cluster.k8s.io drover-project.github.io/allow-deletion=true", "docs/operations.md"}},
		{"Machines go with their definition when it allows that (F-42)", map[string]func(*definition){machines: allowedGoing}, nil},
		{"no Machine goes while the definition of sets is being deleted (F-42)", map[string]func(*definition){sets: going}, []string{"kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"no Machine goes while the definition of deployments is being deleted (F-42)", map[string]func(*definition){deployments: going}, []string{deployments}},
		{"no Machine goes while any other of the five is being deleted (F-42)", map[string]func(*definition){"clusters.cluster.k8s.io": going}, []string{"clusters.cluster.k8s.io"}},
		{"each definition that is being deleted must allow it (F-42)", map[string]func(*definition){machines: allowedGoing, sets: going},
			[]string{"being deleted: machinesets.cluster.k8s.io.", "kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"no Machine goes while the definition of sets is missing (F-42)", map[string]func(*definition){sets: missing},
			[]string{"missing: machinesets.cluster.k8s.io", "kubectl annotate crd machines.cluster.k8s.io drover"}},
		{"a missing definition is no matter when Machines may go (F-42)", map[string]func(*definition){sets: missing, deployments: missing, machines: allowedGoing}, nil},
		{"the command names each definition once (F-42)", map[string]func(*definition){sets: missing, deployments: missing, machines: going},
			[]string{"kubectl annotate crd machines.cluster.k8s.io drover"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := judge(inPlace(tt.change))
			if (got == "") != (len(tt.says) == 0) {
				t.Errorf("got %q", got)
			}
			for _, want := range tt.says {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
	t.Run("a definition that nobody knows of yet allows nothing (F-42)", func(t *testing.T) {
		if d := definitionOf(&metav1.PartialObjectMetadata{}); d.allowed || d.going {
			t.Errorf("got %+v", d)
		}
	})
}

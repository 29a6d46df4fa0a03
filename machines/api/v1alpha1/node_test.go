package v1alpha1

import (
	"slices"
	"testing"
)

func TestWhichLabelsOfNodesAreReserved(t *testing.T) {
	for key, want := range map[string]bool{
		"node-role.kubernetes.io/control-plane":                true,
		"node-role.kubernetes.io/master":                       true,
		"node-restriction.kubernetes.io/tier":                  true,
		"team.example.com.node-restriction.kubernetes.io/tier": true,
		"node-role.kubernetes.io/worker":                       false,
		"not-node-restriction.kubernetes.io/tier":              false,
		"node-restriction.kubernetes.io.example.com/tier":      false,
		"node-restriction":                                     false,
		"team":                                                 false,
		"topology.kubernetes.io/zone":                          false,
	} {
		t.Run("the label "+key+" is "+map[bool]string{true: "reserved", false: "not reserved"}[want]+" (F-89)", func(t *testing.T) {
			if IsReservedNodeLabel(key) != want {
				t.Errorf("got %v", !want)
			}
		})
	}
	t.Run("the withheld labels are the reserved ones of all lists that are not allowed (F-89)", func(t *testing.T) {
		machine := map[string]string{"team": "a", "node-role.kubernetes.io/master": "", "node-restriction.kubernetes.io/b": ""}
		node := map[string]string{"node-role.kubernetes.io/master": "", "node-restriction.kubernetes.io/a": ""}
		got := WithheldNodeLabels([]string{"node-restriction.kubernetes.io/b", "team"}, machine, node, nil)
		if want := []string{"node-restriction.kubernetes.io/a", "node-role.kubernetes.io/master"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

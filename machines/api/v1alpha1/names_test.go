package v1alpha1

import (
	"strings"
	"testing"
)

func TestForWhichOwnerANameWasMade(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, tt := range []struct {
		name                  string
		deployment, set, made string
		isSet, isMachine      bool
	}{
		{"a set's name is the deployment's name, a dash and a hash (F-106)", "nodes", "nodes", "nodes-584598b977", true, true},
		{"the name of another deployment's set is not made from a deployment whose name is the first part of the other name (F-106)", "nodes", "nodes", "nodes-a-584598b977", false, false},
		{"a Machine's name is made from the name of its set (F-106)", "nodes", "nodes-584598b977", "nodes-584598b977-x7k2p", false, true},
		{"a name without a dash is not made from another name (F-106)", "nodes", "nodes", "nodes2", false, false},
		{"machine-controller leaves out the dash after a long name (F-106)", long, long, long[:58] + "x7k2p", false, true},
		{"machine-controller does not shorten a deployment's name in the names of its sets (F-106)", long, long, long + "-584598b977", true, true},
		{"drover shortens long names (F-106)", long, long, long[:57] + "-x7k2p", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsSetNameOf(tt.deployment, tt.made); got != tt.isSet {
				t.Errorf("IsSetNameOf(%q, %q) = %v", tt.deployment, tt.made, got)
			}
			if got := IsMachineNameOf(tt.set, tt.made); got != tt.isMachine {
				t.Errorf("IsMachineNameOf(%q, %q) = %v", tt.set, tt.made, got)
			}
		})
	}
	for name, want := range map[string]bool{"nodes-x2k9p": true, "nodes-large": false, "nodes-00001": false, "nodes-584598b977": false} {
		if got := EndsWithRandom(name); got != want {
			t.Errorf("EndsWithRandom(%q) = %v", name, got)
		}
	}
	for name, want := range map[string]bool{"nodes-584598b977": true, "nodes-2": false, "nodes-large": false, "nodes": false} {
		if got := EndsWithHash(name); got != want {
			t.Errorf("EndsWithHash(%q) = %v", name, got)
		}
	}
}

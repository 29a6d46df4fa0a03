package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

func TestConditionServerReadyWhenServersCannotBeListed(t *testing.T) {
	for name, tc := range map[string]struct {
		server *cloud.Server
		want   Verdict
	}{
		"while the server is being built, shows the error of the failed list (F-28)": {&cloud.Server{State: cloud.ServerBuilding}, Verdict{corev1.ConditionFalse, lifecycle.ReasonServerBuilding, "listing servers: refused"}},
		"does not show the error of the failed list when the server is ACTIVE":       {&cloud.Server{State: cloud.ServerActive}, Verdict{corev1.ConditionTrue, lifecycle.ReasonServerActive, ""}},
		"has a message that shows that the server is in ERROR, followed by the error of the failed list": {&cloud.Server{ID: "s1", State: cloud.ServerError, Status: "ERROR"},
			Verdict{corev1.ConditionFalse, lifecycle.ReasonServerError, "server s1 is in ERROR; listing servers: refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := &lifecycle.Facts{
				Observed: &lifecycle.Observed{Cloud: cloud.Facts{Synced: true, Server: tc.server, Outdated: "listing servers: refused"}},
				Policy:   &lifecycle.Policy{}, Progress: &lifecycle.Progress{},
			}
			got := (&Input{Machine: &v1alpha1.Machine{}, Facts: facts}).serverReady()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("serverReady (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionReadyShowsWhatAKubeletReportsAsOneBoundedLine(t *testing.T) {
	for name, started := range map[string]bool{
		"while the Node starts for the first time, the message is one line without invisible characters, of at most 4 KiB (F-98)": false,
		"after the Node has started, the message is one line without invisible characters, of at most 4 KiB (F-98)":               true,
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "a\n\u202eb" + strings.Repeat("x", 1<<20),
			}}}}
			in := &Input{Machine: &v1alpha1.Machine{}, Facts: &lifecycle.Facts{
				Observed: &lifecycle.Observed{Node: node}, Policy: &lifecycle.Policy{}, Progress: &lifecycle.Progress{Started: started},
			}}
			got := in.nodeReady().Message
			if !strings.Contains(got, "KubeletNotReady: a b") || strings.ContainsAny(got, "\u202e\n") || len(got) > fault.MaxMessage {
				t.Errorf("got %d bytes: %.100q", len(got), got)
			}
		})
	}
}

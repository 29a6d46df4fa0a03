//go:build boot

package boot

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/boot/guests"
	"github.com/drover-project/drover/test/openstack"
)

// Versions of kubelets with which a setup fails. The test's download server has the kubelet of version damaged with a wrong
// checksum, and has none of version unpublished. tooNew is newer than the API server.
const (
	damaged     = "1.36.98"
	unpublished = "1.36.99"
	tooNew      = "1.99.0"
)

// failure is a group whose setup fails, and the texts that a condition of its Machine must contain before the join deadline.
type failure struct {
	group     group
	condition string
	contains  []string
}

// setupsThatFail boots servers that cannot become nodes, all at the same time, and waits until their Machines name the causes.
func setupsThatFail(t *testing.T) {
	const deadline = 16 * time.Minute
	h := newHarness(t, settings{
		noResolver: "nameless", flags: []string{"--join-timeout=" + deadline.String()},
		downloads: map[string]guests.Download{kubeletURL(damaged): {Path: imageSet.Kernel, WrongSum: true}},
	})
	failures := []failure{
		{
			group:     group{name: "nameless", kubelet: imageSet.Newest, system: "ubuntu", cloud: inSimulatedCloud(bareImage)},
			condition: v1alpha1.ConditionConsole, contains: []string{"drover-setup", "github.com/containerd/containerd", "failed"},
		}, {
			group:     group{name: "unpublished", kubelet: unpublished, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			condition: v1alpha1.ConditionConsole, contains: []string{"drover-setup", "404", kubeletURL(unpublished) + " failed"},
		}, {
			group:     group{name: "damaged", kubelet: damaged, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			condition: v1alpha1.ConditionConsole, contains: []string{"drover-setup", kubeletURL(damaged) + " failed: its SHA-256 is ", kubeletURL(damaged) + ".sha256 publishes "},
		}, {
			group:     group{name: "refused", kubelet: tooNew, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			condition: v1alpha1.ConditionSpecValid, contains: []string{"spec.versions.kubelet", tooNew},
		},
	}
	for _, f := range failures {
		h.create(f.group)
	}
	for _, f := range failures {
		t.Run(f.group.name, func(t *testing.T) { h.awaitCause(t, f, deadline) })
	}
	if consoles := h.network.Consoles(); len(consoles) != len(failures)-1 {
		t.Errorf("%d guests were started, want %d: one for each group, except that with a kubelet newer than the API server", len(consoles), len(failures)-1)
	}
}

// awaitCause waits until the Machine's condition names the cause. That must happen before the server's join deadline.
func (h *harness) awaitCause(t *testing.T, f failure, deadline time.Duration) {
	var first types.UID
	h.eventually(func(ctx context.Context) (string, error) {
		m, err := h.machine(ctx, f.group)
		if err != nil || m == nil {
			return "a Machine of " + f.group.name, err
		}
		if first == "" {
			first = m.UID
		}
		if m.UID != first || time.Since(m.CreationTimestamp.Time) > deadline {
			t.Fatalf("the join deadline of %s is over, and no condition has named the cause: %s", deadline, h.conditions())
		}
		c := condition(m, f.condition)
		for _, text := range f.contains {
			if !strings.Contains(c.Message, text) {
				return "a condition " + f.condition + " that contains " + text, nil
			}
		}
		wanted := corev1.ConditionTrue
		if f.condition == v1alpha1.ConditionSpecValid {
			wanted = corev1.ConditionFalse
		}
		if c.Status != wanted {
			t.Errorf("condition %s is %s, want %s", c.Type, c.Status, wanted)
		}
		h.logf("the condition of %s:\n%s", m.Name, c.Message)
		return "", nil
	})
}

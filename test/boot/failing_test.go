//go:build boot

package boot

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/boot/guests"
	"github.com/drover-project/drover/test/openstack"
)

// Versions of kubelets of which the Internet of the test has a file with a wrong checksum, and nothing.
const (
	damaged     = "1.36.98"
	unpublished = "1.36.99"
	tooNew      = "1.99.0"
)

// failure is a group whose setup fails, and what its Machine's condition must say before the join deadline.
type failure struct {
	group     group
	condition string
	says      []string
}

// setupsThatFail boots servers that cannot become nodes, all at the same time.
func setupsThatFail(t *testing.T) {
	const deadline = 16 * time.Minute
	w := newWorld(t, settings{
		noNames: "nameless", flags: []string{"--join-timeout=" + deadline.String()},
		downloads: map[string]guests.Download{kubeletURL(damaged): {Path: set.Kernel, WrongSum: true}},
	})
	failures := []failure{
		{
			group:     group{name: "nameless", kubelet: set.Newest, system: "ubuntu", cloud: inSimulatedCloud(bareImage)},
			condition: v1alpha1.ConditionConsole, says: []string{"drover-setup", "github.com/containerd/containerd", "failed"},
		}, {
			group:     group{name: "unpublished", kubelet: unpublished, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			condition: v1alpha1.ConditionConsole, says: []string{"drover-setup", "404", kubeletURL(unpublished) + " failed"},
		}, {
			group:     group{name: "damaged", kubelet: damaged, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			condition: v1alpha1.ConditionConsole, says: []string{"drover-setup", "sha256sum", "kubelet"},
		}, {
			group:     group{name: "refused", kubelet: tooNew, system: "ubuntu", cloud: inSimulatedCloud(openstack.MetaKubeImage)},
			condition: v1alpha1.ConditionSpecValid, says: []string{"spec.versions.kubelet", tooNew},
		},
	}
	for _, f := range failures {
		w.apply(f.group)
	}
	for _, f := range failures {
		t.Run(f.group.name, func(t *testing.T) { w.says(t, f, deadline) })
	}
	if consoles := w.network.Consoles(); len(consoles) != len(failures)-1 {
		t.Errorf("%d servers, want one for each group but the one whose kubelet is too new", len(consoles))
	}
}

// says waits until the Machine's condition names the cause, which must be before its server's join deadline.
func (w *world) says(t *testing.T, f failure, deadline time.Duration) {
	w.eventually(func(ctx context.Context) (string, error) {
		m, err := w.machine(ctx, f.group)
		if err != nil || m == nil {
			return "a Machine of " + f.group.name, err
		}
		if age := time.Since(m.CreationTimestamp.Time); age > deadline {
			t.Fatalf("after %s, which is the join deadline, the condition does not name the cause: %s", age, w.complaints())
		}
		c := condition(m, f.condition)
		for _, text := range f.says {
			if !strings.Contains(c.Message, text) {
				return "a condition " + f.condition + " that says " + text, nil
			}
		}
		wanted := corev1.ConditionTrue
		if f.condition == v1alpha1.ConditionSpecValid {
			wanted = corev1.ConditionFalse
		}
		if c.Status != wanted {
			t.Errorf("condition %s is %s", c.Type, c.Status)
		}
		w.say("%s says:\n%s", m.Name, c.Message)
		return "", nil
	})
}

package chaos

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/world"
	sim "github.com/drover-project/drover/test/openstack"
)

// withoutReferences is how long the objects that the Machine's spec refers to are missing.
const withoutReferences = 5 * time.Minute

// loseServerAnswer makes the cloud carry out the first create of a server and then cut the connection.
func loseServerAnswer(h *harness) error {
	h.Cloud.Inject(sim.Fault{Call: "POST /servers", Drop: true, Times: 1})
	return nil
}

// references returns the objects that the Machine's spec refers to: a ConfigMap with the name of the project, and the Cluster in
// the Machine's label.
func references() []client.Object {
	meta := metav1.ObjectMeta{Name: "project", Namespace: world.Namespace}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"name": sim.MetaKubeProject}},
		&v1alpha1.Cluster{ObjectMeta: meta},
	}
}

// createReferences creates the objects that the Machine's spec refers to.
func (h *harness) createReferences() error {
	for _, o := range references() {
		if err := h.Admin.Create(h.Context, o); err != nil {
			return fmt.Errorf("creating what the spec refers to: %w", err)
		}
	}
	return nil
}

// referringMachine creates a Machine whose spec refers to a ConfigMap and a Cluster.
func (h *harness) referringMachine() (*v1alpha1.Machine, error) {
	if err := h.createReferences(); err != nil {
		return nil, err
	}
	m, err := h.NewMachine()
	if err != nil {
		return nil, err
	}
	m.Labels = map[string]string{v1alpha1.ClusterNameLabel: "project"}
	value := m.Spec.ProviderSpec.Value
	value.Raw = []byte(strings.Replace(string(value.Raw), fmt.Sprintf(`"projectName":%q`, sim.MetaKubeProject),
		fmt.Sprintf(`"projectName":{"configMapKeyRef":{"namespace":%q,"name":"project","key":"name"}}`, world.Namespace), 1))
	return m, h.Admin.Create(h.Context, m)
}

// referencesDeleted deletes a Machine together with the objects that its spec refers to. It does so once the Machine's
// server exists, perhaps before drover knows of the server. The objects are created again later, because a new drover
// process that starts without them has no credentials for the project.
func (h *harness) referencesDeleted() error {
	m, err := h.referringMachine()
	if err != nil {
		return fmt.Errorf("creating the Machine: %w", err)
	}
	if err := h.until("the server exists", func() (bool, error) { return len(h.Ours().Servers) > 0, nil }); err != nil {
		return err
	}
	h.recordDeletion()
	for _, o := range append(references(), m) {
		if err := h.Admin.Delete(h.Context, o); err != nil {
			return fmt.Errorf("deleting the Machine with what its spec refers to: %w", err)
		}
	}
	since := time.Now()
	if err := h.until("the Machine is gone, or its references have been away for long", func() (bool, error) {
		machines, err := h.Machines()
		return len(machines) == 0 || time.Since(since) > withoutReferences, err
	}); err != nil {
		return err
	}
	if err := h.createReferences(); err != nil {
		return err
	}
	return h.ended(1, 0)
}

package chaos

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sim "github.com/drover-project/drover/test/openstack"
)

// withoutReference is how long a Machine is left alone without the ConfigMap that its spec needs.
const withoutReference = 5 * time.Minute

// loseServerAnswer carries the first create of a server out and cuts the connection instead of answering.
func loseServerAnswer(p *play) error {
	p.Cloud.Inject(sim.Fault{Call: "POST /servers", Drop: true, Times: 1})
	return nil
}

// projectMap returns the ConfigMap that names the project.
func projectMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "project", Namespace: namespace}, Data: map[string]string{"name": sim.MetaKubeProject}}
}

// referenceGoes deletes a Machine together with the ConfigMap that its spec needs once its server exists, of which drover may not
// know yet. The ConfigMap comes back later: a drover that was started without it knows no credentials for the project.
func (p *play) referenceGoes() error {
	if err := p.admin.Create(p.ctx, projectMap()); err != nil {
		return fmt.Errorf("creating the ConfigMap: %w", err)
	}
	m, err := p.newMachine()
	if err != nil {
		return err
	}
	value := m.Spec.ProviderSpec.Value
	value.Raw = []byte(strings.Replace(string(value.Raw), fmt.Sprintf(`"projectName":%q`, sim.MetaKubeProject),
		fmt.Sprintf(`"projectName":{"configMapKeyRef":{"namespace":%q,"name":"project","key":"name"}}`, namespace), 1))
	if err := p.admin.Create(p.ctx, m); err != nil {
		return fmt.Errorf("creating the Machine: %w", err)
	}
	if err := p.until("the server exists", func() (bool, error) { return len(p.ours().Servers) > 0, nil }); err != nil {
		return err
	}
	p.leave()
	if err := p.admin.Delete(p.ctx, projectMap()); err != nil {
		return fmt.Errorf("deleting the ConfigMap: %w", err)
	}
	if err := p.admin.Delete(p.ctx, m); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	since := time.Now()
	if err := p.until("the Machine is gone, or the ConfigMap has been away for long", func() (bool, error) {
		machines, err := p.machines()
		return len(machines) == 0 || time.Since(since) > withoutReference, err
	}); err != nil {
		return err
	}
	if err := p.admin.Create(p.ctx, projectMap()); err != nil {
		return fmt.Errorf("creating the ConfigMap again: %w", err)
	}
	return p.ended(1, 0)
}

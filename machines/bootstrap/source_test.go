package bootstrap

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

// world implements cluster.Cluster in memory. Its API server answers only the request for the version.
type world struct {
	cluster.Cluster
	client client.Client
	config *rest.Config
}

func (w *world) GetClient() client.Client    { return w.client }
func (w *world) GetAPIReader() client.Reader { return w.client }
func (w *world) GetConfig() *rest.Config     { return w.config }
func (w *world) GetHTTPClient() *http.Client { return http.DefaultClient }

func newSource(t *testing.T, change func(*Options), objects ...client.Object) (*Source, client.Client) {
	t.Helper()
	version := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		_, _ = out.Write([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.1"}`))
	}))
	t.Cleanup(version.Close)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	w := &world{client: c, config: &rest.Config{Host: version.URL, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("own CA")}}}
	o := Options{Control: w, Target: w, Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), StartupTaint: v1alpha1.DefaultStartupTaint, ClusterDNS: []string{"10.96.0.10"}}
	if change != nil {
		change(&o)
	}
	return New(o), c
}

func owned(by client.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: by.GetName(), UID: by.GetUID(), Controller: ptr.To(true)}}
}

// family returns a Machine and its owners.
func family() (*v1alpha1.MachineDeployment, *v1alpha1.MachineSet, *v1alpha1.Machine) {
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "nodes", Namespace: "ns", UID: "d"}}
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Name: "nodes-1", Namespace: "ns", UID: "s", OwnerReferences: owned(d, "MachineDeployment"), Annotations: map[string]string{v1alpha1.AnnotationRevision: "3"},
	}}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "nodes-1-abcde", Namespace: "ns", UID: "m", OwnerReferences: owned(set, "MachineSet")}}
	m.Spec.Versions.Kubelet = "1.37.1"
	return d, set, m
}

func tokensIn(t *testing.T, c client.Client) int {
	t.Helper()
	var list corev1.SecretList
	if err := c.List(t.Context(), &list, client.InNamespace("kube-system")); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func TestNoBootstrapTokenIsCreatedWhenTheUserDataCannotBeRendered(t *testing.T) {
	_, _, m := family()
	m.OwnerReferences = nil
	m.Spec.Metadata.Labels = map[string]string{"a b": ""}
	s, c := newSource(t, nil, m)
	_, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu"})
	var p *Problem
	if !errors.As(err, &p) || tokensIn(t, c) != 0 {
		t.Errorf("error %v, %d tokens", err, tokensIn(t, c))
	}
}

func clusterInfoMap(kubeconfig string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: "kube-public"}, Data: map[string]string{"kubeconfig": kubeconfig}}
}

func TestTheKubeletVersionOfAMachineIsChecked(t *testing.T) {
	_, _, m := family()
	m.Spec.Versions.Kubelet = "1.30.3"
	s, _ := newSource(t, nil)
	t.Run("refuses a kubelet that is too old for the API server", func(t *testing.T) {
		var p *Problem
		if err := s.Check(t.Context(), m); !errors.As(err, &p) || !strings.Contains(p.Message, "allowed are 1.34 to 1.37 (annotation drover-project.github.io/allow-version-skew") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("accepts an old kubelet when the Machine's annotation allows the version skew", func(t *testing.T) {
		m.Annotations = map[string]string{v1alpha1.AnnotationAllowSkew: "true"}
		if err := s.Check(t.Context(), m); err != nil {
			t.Errorf("error %v", err)
		}
	})
	t.Run("refuses a Machine without a kubelet version", func(t *testing.T) {
		m.Spec.Versions.Kubelet = ""
		if err := s.Check(t.Context(), m); err == nil || !strings.Contains(err.Error(), "spec.versions.kubelet is empty") {
			t.Errorf("error %v", err)
		}
	})
}

func TestUserDataHasTheKubeletSettingsThatAnnotationsSet(t *testing.T) {
	const key = annotationKubeletConfig + "MaxPods"
	for name, tc := range map[string]struct {
		deployment, machine map[string]string
		want                string
	}{
		"the annotations of the MachineDeployment are used when the Machine has none (F-36)":   {map[string]string{key: "50"}, nil, "maxPods: 50\n"},
		"the Machine's annotations take precedence over those of the MachineDeployment (F-36)": {map[string]string{key: "50"}, map[string]string{key: "70"}, "maxPods: 70\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, set, m := family()
			d.Annotations, m.Annotations = tc.deployment, tc.machine
			s, _ := newSource(t, nil, d, set, m)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu"})
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(got)
			if err != nil || !strings.Contains(boot.Files[kubelet.ConfigFile], tc.want) {
				t.Errorf("error %v, configuration:\n%s", err, boot.Files[kubelet.ConfigFile])
			}
		})
	}
}

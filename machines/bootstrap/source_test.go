package bootstrap

import (
	"crypto/rand"
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

// world is a cluster in memory whose API server says its version and nothing else.
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
	o := Options{Control: w, Target: w, Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), Rand: rand.Reader, StartupTaint: v1alpha1.DefaultStartupTaint}
	if change != nil {
		change(&o)
	}
	return New(o), c
}

func owned(by client.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: by.GetName(), UID: by.GetUID(), Controller: ptr.To(true)}}
}

// family is a Machine with its owners.
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

func TestUserDataOfOperatingSystemManager(t *testing.T) {
	secret := func(revision, content string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "nodes-ns-bootstrap-config", Namespace: "cloud-init-settings", Annotations: map[string]string{"k8c.io/machine-deployment-revision": revision}},
			Data:       map[string][]byte{"cloud-config": []byte(content)},
		}
	}
	annotated := func(d *v1alpha1.MachineDeployment) {
		d.Annotations = map[string]string{"k8c.io/operating-system-profile": "osp-ubuntu"}
	}
	for _, tt := range []struct {
		name   string
		mark   func(*v1alpha1.MachineDeployment)
		secret *corev1.Secret
		lost   string // an object that is not there
		want   string // the user data, or after "waits: " a part of what is waited for
	}{
		{"MC-45 the secret of the set's revision, MC-46 with the Machine's name, plain and escaped", annotated, secret("3", "#cloud-config\nhostname: <MACHINE_NAME> %3CMACHINE_NAME%3E"), "", "#cloud-config\nhostname: nodes-1-abcde nodes-1-abcde"},
		{"a deployment that only bears its finalizer", func(d *v1alpha1.MachineDeployment) {
			d.Finalizers = []string{"kubermatic.io/cleanup-operating-system-configs"}
		}, secret("3", "x"), "", "x"},
		{"MC-45 no secret yet", annotated, nil, "", "waits: Secret cloud-init-settings/nodes-ns-bootstrap-config does not exist"},
		{"MC-45 the secret of another revision", annotated, secret("2", "x"), "", `waits: is for revision "2"; MachineSet nodes-1 is revision "3"`},
		{"MC-45 a secret without a revision", annotated, secret("", "x"), "", `waits: is for revision ""`},
		{"an empty secret", annotated, secret("3", ""), "", "waits: holds no cloud-config yet"},
		{"a set that is not seen yet", annotated, secret("3", "x"), "MachineSet", "waits: MachineSet nodes-1, the owner of nodes-1-abcde, is not there"},
		{"a deployment that is not seen yet", annotated, secret("3", "x"), "MachineDeployment", "waits: MachineDeployment nodes, the owner of nodes-1, is not there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, set, m := family()
			tt.mark(d)
			objects := []client.Object{m}
			if tt.lost != "MachineSet" {
				objects = append(objects, set)
			}
			if tt.lost != "MachineDeployment" {
				objects = append(objects, d)
			}
			if tt.secret != nil {
				objects = append(objects, tt.secret)
			}
			s, c := newSource(t, nil, objects...)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu", OverwriteCloudConfig: ptr.To("mine")})
			if part, waits := strings.CutPrefix(tt.want, "waits: "); waits {
				var w *Waiting
				if !errors.As(err, &w) || !strings.Contains(w.Message, part) {
					t.Errorf("got %q, error %v", got, err)
				}
			} else if err != nil || string(got) != tt.want {
				t.Errorf("got %q, error %v", got, err)
			}
			if n := tokensIn(t, c); n != 0 {
				t.Errorf("%d tokens were made", n)
			}
		})
	}
}

func TestUserDataOfAMachineClass(t *testing.T) {
	object := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace}
	}
	class := func(namespace string, refs ...string) *v1alpha1.MachineClass {
		c := &v1alpha1.MachineClass{ObjectMeta: object("small", namespace), SecretRef: &corev1.SecretReference{Name: refs[0]}}
		if len(refs) > 1 {
			c.CredentialsSecretRef = &corev1.SecretReference{Name: refs[1]}
		}
		return c
	}
	secret := func(name, namespace string, data map[string]string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: object(name, namespace), Data: map[string][]byte{}}
		for key, value := range data {
			s.Data[key] = []byte(value)
		}
		return s
	}
	for _, tt := range []struct {
		name    string
		in      string // the class's namespace
		objects []client.Object
		own     string // overwriteCloudConfig
		want    string // the user data, or after "fails: " a part of the error
		tokens  int
	}{
		{"userData, MC-46 with name and token", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": "n=<<MACHINE_NAME>> t=<<BOOTSTRAP_TOKEN>>", "cloudConfig": "no"})}, "", "n=nodes-1-abcde t=TOKEN", 1},
		{"MC-46 escaped, as in an Ignition document", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"cloudConfig": "n=%3C%3CMACHINE_NAME%3E%3E t=%3C%3CBOOTSTRAP_TOKEN%3E%3E"})}, "", "n=nodes-1-abcde t=TOKEN", 1},
		{"a text without a place for a token gets none", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": "plain"})}, "", "plain", 0},
		{"the credentials' Secret lies over it", "ns", []client.Object{class("ns", "a", "b"), secret("a", "ns", map[string]string{"userData": "low"}), secret("b", "ns", map[string]string{"userData": "high"})}, "", "high", 0},
		{"the Machine's own text comes first", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": "class"})}, "mine", "mine", 0},
		{"a class whose Secret holds credentials alone", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"username": "x"})}, "", "#cloud-config\n", 1},
		{"a class that is missing", "ns", nil, "", "fails: MachineClass ns/small does not exist", 0},
		{"a Secret that is missing", "ns", []client.Object{class("ns", "a")}, "", "fails: Secret ns/a does not exist", 0},
		{"MC-12 a class in a namespace that is not allowed", "other", []client.Object{class("other", "a")}, "", "fails: points into namespace other", 0},
		{"MC-12 a class in a namespace that is", "allowed", []client.Object{class("allowed", "a"), secret("a", "allowed", map[string]string{"userData": "x"})}, "", "x", 0},
		{"text that is too long", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": strings.Repeat("x", 49150)})}, "", "fails: 65536 bytes in base64 form", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, m := family()
			m.OwnerReferences = nil
			m.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: "small", Namespace: tt.in}}}
			s, c := newSource(t, func(o *Options) { o.AllowedNamespaces = []string{"allowed"} }, append(tt.objects, m)...)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu", OverwriteCloudConfig: &tt.own})
			text := anyToken.ReplaceAllString(string(got), "TOKEN")
			if part, fails := strings.CutPrefix(tt.want, "fails: "); fails {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, error %v", got, err)
				}
			} else if err != nil || !strings.HasPrefix(text, tt.want) || tt.want != "#cloud-config\n" && text != tt.want {
				t.Errorf("got %q, error %v", text, err)
			}
			if n := tokensIn(t, c); n != tt.tokens {
				t.Errorf("%d tokens, want %d", n, tt.tokens)
			}
		})
	}
}

func TestUserDataThatCannotBeMadeCostsNoToken(t *testing.T) {
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

func TestWhereAServerFindsItsAPIServer(t *testing.T) {
	info := clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443', certificate-authority-data: cHVibGljIENB}}]")
	for _, tt := range []struct {
		name   string
		info   *corev1.ConfigMap
		change func(*Options)
		server string // or after "waits: " a part of what is waited for
		ca     string
	}{
		{"cluster-info", info, nil, "https://public:6443", "public CA"},
		{"the operator's word over it", info, func(o *Options) { o.APIServer = "https://named:6443" }, "https://named:6443", "public CA"},
		{"drover's own connection without it", nil, func(o *Options) { o.APIServer = "https://named:6443" }, "https://named:6443", "own CA"},
		{"a cluster-info without a CA is of no use", clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443'}}]"), func(o *Options) { o.APIServer = "https://named" }, "https://named", "own CA"},
		{"a pod's own connection is of no use", nil, func(o *Options) { o.InPod = true }, "waits: ConfigMap kube-public/cluster-info names none; create it, or start drover with --bootstrap-api-server", ""},
		{"no CA at all", nil, func(o *Options) { o.Target.GetConfig().CAData = nil }, "waits: no CA is known for the API server", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, m := family()
			m.OwnerReferences = nil
			objects := []client.Object{m}
			if tt.info != nil {
				objects = append(objects, tt.info)
			}
			s, _ := newSource(t, tt.change, objects...)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "flatcar"})
			if part, waits := strings.CutPrefix(tt.server, "waits: "); waits {
				var w *Waiting
				if !errors.As(err, &w) || !strings.Contains(w.Message, part) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(got)
			if err != nil || !strings.Contains(boot.Files[kubelet.BootstrapFile], "server: "+tt.server) || boot.Files[kubelet.CAFile] != tt.ca {
				t.Errorf("CA %q, %s, error %v", boot.Files[kubelet.CAFile], boot.Files[kubelet.BootstrapFile], err)
			}
		})
	}
}

func TestCheckOfTheSeedsManifest(t *testing.T) {
	_, _, m := family()
	m.Spec.Versions.Kubelet = "1.30.3"
	s, _ := newSource(t, nil)
	t.Run("its kubelet is too old for the control plane", func(t *testing.T) {
		var p *Problem
		if err := s.Check(t.Context(), m); !errors.As(err, &p) || !strings.Contains(p.Message, "allowed are 1.34 to 1.37 (annotation drover-project.github.io/allow-version-skew") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("unless its annotation says that it may be", func(t *testing.T) {
		m.Annotations = map[string]string{v1alpha1.AnnotationAllowSkew: "true"}
		if err := s.Check(t.Context(), m); err != nil {
			t.Errorf("error %v", err)
		}
	})
	t.Run("no version is a problem of its own", func(t *testing.T) {
		m.Spec.Versions.Kubelet = ""
		if err := s.Check(t.Context(), m); err == nil || !strings.Contains(err.Error(), "spec.versions.kubelet is empty") {
			t.Errorf("error %v", err)
		}
	})
}

func TestRedactKnowsTheMachinesOwnUserData(t *testing.T) {
	_, _, m := family()
	m.OwnerReferences = nil
	s, c := newSource(t, func(o *Options) { o.Site.HTTPProxy = "http://me:pr0xyword@proxy:3128" }, m)
	config := &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu", OverwriteCloudConfig: ptr.To("password: tiger-tiger\n<<BOOTSTRAP_TOKEN>>")}
	if _, err := s.UserData(t.Context(), m, config); err != nil {
		t.Fatal(err)
	}
	token, err := s.Tokens.Ensure(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Redact(t.Context(), m, config, "a tiger-tiger b "+token.Secret+" c pr0xyword d")
	if want := "a [redacted] b [redacted] c [redacted] d"; err != nil || got != want {
		t.Errorf("got %q, error %v", got, err)
	}
	if n := tokensIn(t, c); n != 1 {
		t.Errorf("%d tokens", n)
	}
}

func TestNothingIsRememberedOfATokenThatWasCollected(t *testing.T) {
	_, _, here := family()
	gone := here.DeepCopy()
	gone.Name, gone.UID = "removed-by-hand", "gone"
	s, c := newSource(t, nil, here)
	for _, m := range []*v1alpha1.Machine{here, gone} {
		if _, err := s.Tokens.Ensure(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := s.Collect(t.Context())
	_, known := s.Tokens.recall(here.UID)
	if err != nil || deleted != 1 || tokensIn(t, c) != 1 || len(s.Tokens.known) != 1 || !known {
		t.Errorf("%d deleted, error %v, %d left, remembered %v", deleted, err, tokensIn(t, c), s.Tokens.known)
	}
}

func TestUserDataHasTheKubeletAnnotationsOfTheOwners(t *testing.T) {
	const key = annotationKubeletConfig + "MaxPods"
	for name, tc := range map[string]struct {
		deployment, machine map[string]string
		want                string
	}{
		"the MachineDeployment's (F-36)":                    {map[string]string{key: "50"}, nil, "maxPods: 50\n"},
		"the Machine's over the MachineDeployment's (F-36)": {map[string]string{key: "50"}, map[string]string{key: "70"}, "maxPods: 70\n"},
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

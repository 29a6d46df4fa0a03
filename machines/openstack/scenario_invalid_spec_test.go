package openstack

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

// bringUp makes the calls with which the Machine controller creates a server, and returns the first error.
func (b *bench) bringUp(m *v1alpha1.Machine) error {
	i, err := b.cloud.Instance(b.ctx, m)
	if err != nil {
		return err
	}
	var failed error
	b.eventually("the project is listed or the spec refused", func() bool {
		f, err := i.Observe(b.ctx)
		failed = err
		return err != nil || f.Synced
	})
	if failed != nil {
		return failed
	}
	_, err = b.make(i)
	return err
}

func TestInvalidSpecReturnsOneErrorAndLeavesNoResources(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sim.AddImage(sim.Image{Name: "twice"})
	b.sim.AddImage(sim.Image{Name: "twice"})
	for name, tc := range map[string]struct {
		spec  fields
		class fault.Class
		code  fault.Code
		says  []string
	}{
		"a spec with an unknown flavor is refused (MC-47)":              {seedFields().with("flavor", "m1.smal"), fault.Invalid, fault.CodeFlavorNotFound, []string{"Machine kube-system/bad", ".flavor:", `"m1.smal"`, "region dbl"}},
		"a spec with an unknown image is refused (MC-47)":               {seedFields().with("image", "Ubuntu 3000"), fault.Invalid, fault.CodeImageNotFound, []string{"Machine kube-system/bad", ".image:", `"Ubuntu 3000"`}},
		"the error for an unknown flavor suggests similar names (F-55)": {seedFields().with("flavor", "m1.smal"), fault.Invalid, fault.CodeFlavorNotFound, []string{"; did you mean m1.small or "}},
		"the error for an unknown image suggests a similar name (F-55)": {seedFields().with("image", "Ubuntu Noble 24.04 (2024-08-02)"), fault.Invalid, fault.CodeImageNotFound, []string{"; did you mean " + sim.MetaKubeImage + "?"}},
		"a spec with an unknown image ID is refused (MC-47)": {seedFields().with("image", "00000000-0000-0000-0000-000000000001"), fault.Invalid, fault.CodeImageNotFound,
			[]string{".image:", "00000000-0000-0000-0000-000000000001"}},
		"a spec with an ambiguous image name is refused (MC-42)":                    {seedFields().with("image", "twice"), fault.Invalid, fault.CodeAmbiguousName, []string{".image:", `"twice"`, "IDs"}},
		"a spec with an unknown network is refused (MC-47)":                         {seedFields().with("network", "nowhere"), fault.Invalid, fault.CodeNetworkNotFound, []string{".network:", `"nowhere"`}},
		"a spec with an unknown subnet is refused":                                  {seedFields().with("subnet", "nowhere"), fault.Invalid, fault.CodeSubnetNotFound, []string{".subnet:", `"nowhere"`}},
		"a spec with an unknown server group in the field serverGroup is refused":   {seedFields().with("serverGroupID", nil).with("serverGroup", "nowhere"), fault.Invalid, fault.CodeServerGroupNotFound, []string{".serverGroup:"}},
		"a spec with an unknown volume type is refused":                             {seedFields().with("rootDiskSizeGB", 20).with("rootDiskVolumeType", "gold"), fault.Invalid, fault.CodeVolumeTypeNotFound, []string{".rootDiskVolumeType:", `"gold"`}},
		"a spec with an unknown key pair is refused":                                {seedFields().with("keyName", "lost"), fault.Invalid, fault.CodeKeyPairNotFound, []string{".keyName:", `"lost"`}},
		"a spec with a boot volume and a flavor with a local disk is refused":       {seedFields().with("flavor", "l1.small").with("rootDiskSizeGB", 80), fault.Invalid, fault.CodeInvalidSpec, []string{".rootDiskSizeGB:", `"l1.small"`, "local"}},
		"a spec with an unknown security group is refused":                          {seedFields().with("securityGroups", []string{"open"}), fault.Invalid, fault.CodeSecurityGroupNotFound, []string{".securityGroups:", `"open"`}},
		"a spec with an unknown server group in the field serverGroupID is refused": {seedFields().with("serverGroupID", "11111111-0000-0000-0000-000000000001"), fault.Invalid, fault.CodeServerGroupNotFound, []string{".serverGroupID:"}},
		"a spec with an unknown availability zone is refused":                       {seedFields().with("availabilityZone", "mars"), fault.Invalid, fault.CodeZoneNotFound, []string{".availabilityZone:", `"mars"`, "dbl1"}},
		"a spec with an unknown pool of floating IPs is refused":                    {seedFields().with("floatingIpPool", "pool"), fault.Invalid, fault.CodeIPPoolNotFound, []string{".floatingIpPool:", `"pool"`}},
		"a spec whose pool of floating IPs is not an external network is refused":   {seedFields().with("floatingIpPool", sim.MetaKubeNetwork), fault.Invalid, fault.CodeIPPoolNotFound, []string{"not an external network"}},
		"a spec with an unknown region is refused":                                  {seedFields().with("region", "cbk"), fault.Invalid, fault.CodeInvalidSpec, []string{"region cbk is unknown", "dbl"}},
		"a spec with an unknown field is refused (MC-9)":                            {seedFields().with("flaver", "m1.small"), fault.Invalid, fault.CodeInvalidSpec, []string{"Machine kube-system/bad", "cloudProviderSpec.flaver", "did you mean flavor"}},
		"a spec with different values for two aliases of a field is refused (MC-9)": {seedFields().with("serverGroup", "other"), fault.Invalid, fault.CodeInvalidSpec, []string{".serverGroup:", "conflicts"}},
		"a spec without a flavor is refused":                                        {seedFields().with("flavor", nil), fault.Invalid, fault.CodeInvalidSpec, []string{".flavor: is missing"}},
		"a spec with a disk that is too small for the image is refused":             {seedFields().with("rootDiskSizeGB", 2), fault.Invalid, fault.CodeInvalidSpec, []string{".image:", "8 GiB"}},
		"a spec with a disk size that is not a number is refused":                   {seedFields().with("rootDiskSizeGB", "big"), fault.Invalid, fault.CodeInvalidSpec, []string{".rootDiskSizeGB:", `"big"`}},
		"a spec with a tag that is reserved for drover is refused":                  {seedFields().with("tags", map[string]string{"machine-uid": "x"}), fault.Invalid, fault.CodeInvalidSpec, []string{".tags:", "machine-uid"}},
		"a spec with a boolean in quotes is refused":                                {seedFields().with("configDrive", "true"), fault.Invalid, fault.CodeInvalidSpec, []string{".configDrive:", "without quotes"}},
		"a spec with a wrong password is refused": {seedFields().with("identityEndpoint", b.sim.AuthURL()).with("username", sim.MetaKubeUser).with("password", "wrong-password").with("projectName", sim.MetaKubeProject),
			fault.Auth, fault.CodeUnauthorized, []string{"Machine kube-system/bad: spec.providerSpec.value.cloudProviderSpec.password: signing in at", `as user "drover"`, "401"}},
		"a spec with another endpoint than the configured cloud's and without credentials is refused (MC-12)": {seedFields().with("identityEndpoint", "https://evil.example:5000/v3"),
			fault.Auth, fault.CodeCredentialsMissing, []string{".identityEndpoint:", "evil.example"}},
		"a spec that references a missing Secret is refused (MC-11)": {seedFields().with("username", "x").with("password", map[string]any{"secretKeyRef": map[string]string{"namespace": "kube-system", "name": "creds", "key": "pw"}}),
			fault.Invalid, fault.CodeInvalidSpec, []string{".password:", "creds"}},
		"a spec that references a Secret in another namespace than the Machine's is refused (MC-12)": {seedFields().with("username", "x").with("password", map[string]any{"secretKeyRef": map[string]string{"namespace": "other", "name": "creds", "key": "pw"}}),
			fault.Invalid, fault.CodeInvalidSpec, []string{".password:", "namespace other"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			err := b.bringUp(newMachine(t, "bad", tc.spec))
			var e *fault.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Class != tc.class || e.Code != tc.code {
				t.Errorf("got %s %s, want %s %s: %s", e.Class, e.Code, tc.class, tc.code, e.Message)
			}
			for _, part := range tc.says {
				if !strings.Contains(e.Message, part) {
					t.Errorf("%q does not say %q", e.Message, part)
				}
			}
			if len(e.Message) > fault.MaxMessage || strings.Contains(e.Message, "\n") || strings.Contains(e.Message, "wrong-password") {
				t.Errorf("not fit to be shown: %q", e.Message)
			}
			b.nothingLeft()
		})
	}
	if got := b.calls("POST /ports", "POST /servers", "POST /floatingips"); got != 0 {
		t.Errorf("%d creates", got)
	}
}

func TestWrongPasswordIsTriedOnceForAllMachines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 50 {
		m := newMachine(t, "bad", seedFields().with("identityEndpoint", b.sim.AuthURL()).with("username", sim.MetaKubeUser).with("password", "wrong").with("projectName", sim.MetaKubeProject))
		if err := b.bringUp(m); !fault.Is(err, fault.Auth) {
			t.Fatalf("got %v", err)
		}
	}
	refused := 0
	for _, call := range b.sim.Calls() {
		if call.Status == http.StatusUnauthorized {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("Keystone refused %d sign-ins, want 1: %v", refused, b.sim.Calls())
	}
}

func newReader(t *testing.T, objects ...ctrlclient.Object) ctrlclient.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestMachineSpecTakesPrecedenceOverMachineClassClusterAndConfiguredCloud(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "kube-system", Name: name}
	}
	class := &v1alpha1.MachineClass{
		ObjectMeta: meta("small"), ProviderSpec: providerValue(t, fields{"flavor": sim.MetaKubeFlavor, "image": "overridden"}),
		CredentialsSecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: "creds"},
	}
	cluster := &v1alpha1.Cluster{ObjectMeta: meta("the-only"), Spec: v1alpha1.ClusterSpec{ProviderSpec: v1alpha1.ProviderSpec{
		Value: providerValue(t, fields{"network": sim.MetaKubeNetwork, "flavor": "overridden", "subnet": sim.MetaKubeSubnet}),
	}}}
	secret := &corev1.Secret{ObjectMeta: meta("creds"), Data: map[string][]byte{
		"applicationCredentialID": []byte(sim.MetaKubeAppCredentialID), "applicationCredentialSecret": []byte(sim.MetaKubeAppCredentialSecret),
	}}
	b.withReader(newReader(t, class, cluster, secret))
	m := newMachine(t, "a", fields{"image": sim.MetaKubeImage, "securityGroups": []string{sim.MetaKubeSecurityGroup}})
	m.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: "small"}}}
	_, s := b.active(m)
	got, _ := b.sim.Server(s.ID)
	if got.Flavor != sim.MetaKubeFlavor || len(got.FixedIPs) != 1 || !strings.HasPrefix(got.FixedIPs[0], "192.168.1.") {
		t.Errorf("got %+v", got)
	}
	conn := b.connectionOf(m.UID)
	if got := conn.session.Method(); got != client.ByApplicationCredential {
		t.Errorf("the class's Secret does not override the configured cloud: signed in by %s", got)
	}
}

func TestErrorNamesTheMissingSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withReader(newReader(t))
	m := newMachine(t, "a", seedFields().with("username", "x").with("password", map[string]any{
		"secretKeyRef": map[string]string{"namespace": "kube-system", "name": "creds", "key": "pw"},
	}))
	_, err := b.cloud.Instance(b.ctx, m)
	e := fault.Of(err)
	if e == nil || e.Class != fault.Auth || e.Code != fault.CodeCredentialsMissing || !strings.Contains(e.Message, "Secret kube-system/creds does not exist") {
		t.Fatalf("MC-11: got %v", err)
	}
}

func TestSecretThatDroverMayNotReadIsAnError(t *testing.T) {
	t.Parallel()
	const bind = "kubectl create rolebinding drover:references --clusterrole=drover:references --serviceaccount=ops:drover -n "
	b := newBench(t)
	b.options.ServiceAccount = "ops:drover"
	forbidden := interceptor.NewClient(newReader(t).(ctrlclient.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ ctrlclient.WithWatch, key ctrlclient.ObjectKey, _ ctrlclient.Object, _ ...ctrlclient.GetOption) error {
			return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("no such role"))
		},
	})
	b.withReader(forbidden)
	for name, tc := range map[string]struct {
		namespace string
		code      fault.Code
		says      []string
	}{
		"the error shows the kubectl command that grants access to a Secret in the Machine's namespace (F-44)": {
			"kube-system", fault.CodeReferenceForbidden, []string{".password: ", "Secret kube-system/creds", "Forbidden", bind + "kube-system"}},
		"for a Secret in a forbidden namespace, the error shows the flag and the kubectl command that allow reading it (F-44)": {
			"other", fault.CodeInvalidSpec, []string{"namespace other", "--secret-namespaces=other", bind + "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "a", seedFields().with("username", "x").with("password", map[string]any{
				"secretKeyRef": map[string]string{"namespace": tc.namespace, "name": "creds", "key": "pw"},
			}))
			_, err := b.cloud.Instance(b.ctx, m)
			e := fault.Of(err)
			if e == nil || e.Code != tc.code || fault.ClassOf(e.Code) != e.Class {
				t.Fatalf("got %+v, want code %s and its class", e, tc.code)
			}
			for _, want := range tc.says {
				if !strings.Contains(e.Message, want) {
					t.Errorf("%q does not hold %q", e.Message, want)
				}
			}
		})
	}
}

func TestMachineIsRefusedWhenItsLabelRefersToAMissingCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withReader(newReader(t))
	m := newMachine(t, "a", seedFields())
	m.Labels = map[string]string{v1alpha1.ClusterNameLabel: "gone"}
	if _, err := b.cloud.Instance(b.ctx, m); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "Cluster kube-system/gone does not exist") {
		t.Fatalf("got %v", err)
	}
}

func TestANamespaceWithSeveralClusters(t *testing.T) {
	t.Parallel()
	clusterOf := func(name string, document fields) *v1alpha1.Cluster {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		if document != nil {
			c.Spec.ProviderSpec.Value = providerValue(t, document)
		}
		return c
	}
	first := func() *v1alpha1.Cluster {
		return clusterOf("first", fields{"flavor": sim.MetaKubeFlavor})
	}
	for name, second := range map[string]*v1alpha1.Cluster{
		"another document": clusterOf("second", fields{"flavor": "other"}),
		"no document":      clusterOf("second", nil),
	} {
		t.Run("a Machine without the label gets no server, and the error names both and the label, when the second Cluster has "+name+" (F-161)", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.withReader(newReader(t, first(), second))
			_, err := b.cloud.Instance(b.ctx, newMachine(t, "a", seedFields()))
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v", err)
			}
			for _, word := range []string{"first", "second", v1alpha1.ClusterNameLabel, "Machine kube-system/a"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not name %s", err, word)
				}
			}
			m := newMachine(t, "b", seedFields())
			m.Labels = map[string]string{v1alpha1.ClusterNameLabel: "first"}
			if _, err := b.cloud.Instance(b.ctx, m); err != nil {
				t.Errorf("with the label: %v", err)
			}
		})
	}
	foreign := clusterOf("second", nil)
	foreign.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"aws","cloudProviderSpec":{"region":"eu"}}`)}
	same := first()
	same.Name = "second"
	for name, second := range map[string]*v1alpha1.Cluster{"belongs to another cloud": foreign, "has the same document": same} {
		t.Run("a Machine without the label is made from the first one when the second "+name+" (F-161)", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.withReader(newReader(t, first(), second))
			document := seedFields()
			delete(document, "flavor")
			_, s := b.active(newMachine(t, "a", document))
			if got, _ := b.sim.Server(s.ID); got.Flavor != sim.MetaKubeFlavor {
				t.Errorf("the server has the flavor %s", got.Flavor)
			}
		})
	}
	t.Run("a Machine with a server is deleted all the same (F-161)", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		api := newReader(t, first())
		b.withReader(api)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		b.records(m, s)
		if err := api.(ctrlclient.Client).Create(b.ctx, clusterOf("second", nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.cloud.Instance(b.ctx, m); err != nil {
			t.Fatalf("while it runs: %v", err)
		}
		leaves(m)
		b.gone(b.found(t, m))
		b.nothingLeft()
	})
}

func TestUnknownFieldInTheSpecDoesNotBlockDeletion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	b.active(m)
	m.Spec.ProviderSpec.Value = providerValue(t, seedFields().with("flaver", "x").with("flavor", nil))
	now := metav1.Now()
	m.DeletionTimestamp = &now
	i := b.instance(m)
	if _, err := i.EnsureServer(b.ctx, nil); err != nil {
		t.Fatalf("the existing server is adopted: %v", err)
	}
	if err := i.ensurePorts(b.ctx); !fault.Is(err, fault.Invalid) {
		t.Fatalf("a new resource may be created: %v", err)
	}
	b.remove(i)
	b.nothingLeft()
}

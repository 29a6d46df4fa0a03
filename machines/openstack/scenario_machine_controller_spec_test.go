package openstack

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

// The tests in this file use objects that were written for machine-controller.

// signInFields are the fields that machine-controller's example reads from one Secret.
var signInFields = []string{
	"identityEndpoint", "applicationCredentialID", "applicationCredentialSecret", "username", "password", "domainName",
	"projectName", "tenantName", "projectID", "tenantID", "region",
}

// fromSecret returns a spec whose credentials are references to the keys of one Secret.
func fromSecret(name string) fields {
	spec := seedFields()
	for _, field := range signInFields {
		spec[field] = map[string]any{"secretKeyRef": map[string]string{"namespace": "kube-system", "name": name, "key": field}}
	}
	return spec
}

// secretOf returns a Secret of the Machines' namespace.
func secretOf(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Data: map[string][]byte{}}
	for key, text := range data {
		s.Data[key] = []byte(text)
	}
	return s
}

// configMapOf returns a ConfigMap of the Machines' namespace.
func configMapOf(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Data: data}
}

func (b *bench) passwordSecret(name string) *corev1.Secret {
	return secretOf(name, map[string]string{
		"identityEndpoint": b.sim.AuthURL(), "username": sim.MetaKubeUser, "password": sim.MetaKubePassword,
		"domainName": sim.MetaKubeDomain, "projectName": sim.MetaKubeProject, "region": sim.MetaKubeRegion,
	})
}

func TestReferencesToMissingKeysOfASecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	half := b.passwordSecret("half")
	delete(half.Data, "password")
	application := secretOf("application", map[string]string{
		"identityEndpoint": b.sim.AuthURL(), "applicationCredentialID": sim.MetaKubeAppCredentialID,
		"applicationCredentialSecret": sim.MetaKubeAppCredentialSecret, "username": sim.MetaKubeUser,
	})
	b.withReader(newReader(t, b.passwordSecret("password"), application, half))

	t.Run("a missing key counts as empty when it belongs to a way of signing in that drover does not use (MC-11, F-37)", func(t *testing.T) {
		b.t = t
		i, _ := b.active(newMachine(t, "a", fromSecret("password")))
		if got := b.connectionOf("uid-a").session.Method(); got != client.ByPassword {
			t.Errorf("signed in by %s", got)
		}
		want := "Machine kube-system/a: spec.providerSpec.value.cloudProviderSpec.applicationCredentialID: is treated as empty, because Secret kube-system/password has no key applicationCredentialID"
		if !slices.Contains(i.Warnings(), want) {
			t.Errorf("the warnings do not name the missing keys: %q", i.Warnings())
		}
	})
	t.Run("drover signs in by application credential when only the application credential has all its keys (MC-11, F-37)", func(t *testing.T) {
		b.t = t
		b.active(newMachine(t, "b", fromSecret("application")))
		if got := b.connectionOf("uid-b").session.Method(); got != client.ByApplicationCredential {
			t.Errorf("signed in by %s", got)
		}
	})
	for name, tc := range map[string]struct {
		secret string
		says   []string
	}{
		"when no way of signing in is complete, the error names all missing keys (F-37)":                {"half", []string{"no way of signing in is complete: Secret kube-system/half has no key applicationCredentialID, applicationCredentialSecret, password"}},
		"a missing Secret is an error, and the configured cloud's credentials do not replace it (F-37)": {"gone", []string{"no way of signing in is complete: Secret kube-system/gone does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.cloud.Instance(b.ctx, newMachine(t, "c", fromSecret(tc.secret)))
			if e := fault.Of(err); e == nil || e.Class != fault.Auth || e.Code != fault.CodeCredentialsMissing {
				t.Fatalf("got %v", err)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}

// countingReader is a reader that counts its reads of each Secret and ConfigMap.
type countingReader struct {
	ctrlclient.Reader
	mu    sync.Mutex
	reads map[string]int
}

func (r *countingReader) Get(ctx context.Context, key ctrlclient.ObjectKey, into ctrlclient.Object, options ...ctrlclient.GetOption) error {
	r.mu.Lock()
	r.reads[key.Name]++
	r.mu.Unlock()
	return r.Reader.Get(ctx, key, into, options...)
}

func TestReadsOfTheObjectsThatASpecRefersTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := fromSecret("credentials").with("image", map[string]any{"configMapKeyRef": map[string]string{"namespace": "kube-system", "name": "names", "key": "image"}}).
		with("flavor", map[string]any{"configMapKeyRef": map[string]string{"namespace": "kube-system", "name": "names", "key": "flavor"}})
	names := configMapOf("names", map[string]string{"image": sim.MetaKubeImage, "flavor": sim.MetaKubeFlavor})
	reader := &countingReader{Reader: newReader(t, b.passwordSecret("credentials"), names), reads: map[string]int{}}
	b.withReader(reader)
	m := newMachine(t, "a", spec)
	b.active(m)
	for name, reads := range map[string]func() error{
		"one reconcile of a Machine reads each Secret and ConfigMap once (F-78)": func() error {
			_, err := b.cloud.Instance(b.ctx, m)
			return err
		},
		"the shape of a template reads each Secret and ConfigMap once (F-78)": func() error {
			_, err := b.cloud.Shape(b.ctx, m.Namespace, templateOf(m))
			return err
		},
		"a reconcile reads a Secret that does not exist once, whatever number of its keys the spec names (F-78)": func() error {
			if _, err := b.cloud.Instance(b.ctx, newMachine(t, "b", fromSecret("gone"))); !fault.Is(err, fault.Auth) {
				t.Errorf("got %v", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			clear(reader.reads)
			if err := reads(); err != nil {
				t.Fatal(err)
			}
			for name, n := range reader.reads {
				if n != 1 {
					t.Errorf("%s was read %d times", name, n)
				}
			}
			if len(reader.reads) == 0 {
				t.Error("nothing was read")
			}
		})
	}
}

func TestSpecsWithoutANetwork(t *testing.T) {
	t.Parallel()
	bare := func() fields {
		return seedFields().with("network", "").with("subnet", "").with("availabilityZone", "").with("serverGroupID", "")
	}
	t.Run("when only one network has a subnet, a spec without a network uses that network (MC-40, F-37)", func(t *testing.T) {
		b := newBench(t)
		b.sim.AddNetwork(sim.Network{Name: "without-subnet", Project: sim.MetaKubeProject})
		_, s := b.active(newMachine(t, "a", bare()))
		if got, _ := b.sim.Server(s.ID); len(got.FixedIPs) != 1 || !strings.HasPrefix(got.FixedIPs[0], "192.168.1.") {
			t.Errorf("the server has the addresses %v", got.FixedIPs)
		}
	})
	t.Run("a spec without a network is refused when several networks have a subnet (MC-40, F-37)", func(t *testing.T) {
		b := newBench(t)
		other := b.sim.AddNetwork(sim.Network{Name: "other", Project: sim.MetaKubeProject})
		if _, err := b.sim.AddSubnet(sim.Subnet{Network: other, CIDR: "10.1.0.0/24"}); err != nil {
			t.Fatal(err)
		}
		err := b.bringUp(newMachine(t, "a", bare()))
		if e := fault.Of(err); e == nil || e.Code != fault.CodeAmbiguousName || !strings.Contains(e.Message, ".network: is empty") || !strings.Contains(e.Message, "other ("+other+")") {
			t.Errorf("got %v", err)
		}
		b.nothingLeft()
	})
}

// broken returns a copy of the Machine that is being deleted. It has the provider ID of the server, and document as its provider spec.
func broken(m *v1alpha1.Machine, serverID, document string) *v1alpha1.Machine {
	m = m.DeepCopy()
	m.Spec.ProviderID = ptr.To("openstack:///" + serverID)
	m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(document)}
	m.DeletionTimestamp = ptr.To(metav1.Now())
	return m
}

func TestServerOfAMachineWhoseSpecBecameInvalid(t *testing.T) {
	t.Parallel()
	spec := func(b *bench) string {
		return `"cloudProviderSpec":{"identityEndpoint":"` + b.sim.AuthURL() + `","username":"` + sim.MetaKubeUser + `","password":"` + sim.MetaKubePassword +
			`","domainName":"` + sim.MetaKubeDomain + `","projectName":"` + sim.MetaKubeProject + `"`
	}
	for name, document := range map[string]func(*bench) string{
		"the server is still observed and deleted when tenantName differs from projectName (F-39)": func(b *bench) string { return `{"cloudProvider":"openstack",` + spec(b) + `,"tenantName":"another"}}` },
		"the server is still observed and deleted when sshPublicKeys has the wrong type (F-39)":    func(b *bench) string { return `{"sshPublicKeys":{"a":"b"},` + spec(b) + `}}` },
		"the server is still observed and deleted when cloudProvider names another cloud (F-39)":   func(b *bench) string { return `{"cloudProvider":"aws",` + spec(b) + `,"ami":"x"}}` },
		"the server is still observed and deleted when the provider spec is not an object (F-39)":  func(*bench) string { return `"openstack"` },
		"the server is still observed and deleted when cloudProviderSpec is not an object (F-39)":  func(*bench) string { return `{"cloudProviderSpec":[1]}` },
		"the server is still observed and deleted when a credential that is not used is invalid (F-39)": func(b *bench) string {
			return `{` + spec(b) + `,"applicationCredentialID":["x"],"region":{"vlaue":"x"}}}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", seedFields())
			_, s := b.active(m)
			wrong := broken(m, s.ID, document(b))
			b.restart()
			i := b.instance(wrong)
			b.eventually("the server is seen", func() bool {
				f, err := i.Observe(b.ctx)
				return err == nil && f.Server != nil
			})
			if len(i.Warnings()) == 0 {
				t.Error("the error about the spec is missing")
			}
			b.remove(i)
			b.nothingLeft()
		})
	}
}

func TestServerOfAMachineWithAnUnreadableSpec(t *testing.T) {
	t.Parallel()
	t.Run("a server that is missing in the configured project does not count as gone, because it may be in another project (F-39)", func(t *testing.T) {
		b := newBench(t)
		b.sim.AddUser(sim.User{Name: "other", Password: "other-secret", Projects: []string{"other"}})
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		b.options.Configured.Username, b.options.Configured.Password, b.options.Configured.ProjectName = "other", "other-secret", "other"
		b.restart()
		i := b.instance(broken(m, s.ID, `"openstack"`))
		b.eventually("the error has the reason", func() bool {
			f, err := i.Observe(b.ctx)
			if f.Gone || f.Synced {
				t.Fatalf("an absence in another project counts: %+v", f)
			}
			return fault.Is(err, fault.Invalid) && strings.Contains(err.Error(), "not a JSON object")
		})
		if released, err := i.Release(b.ctx); released.Done || err == nil {
			t.Errorf("released: %v, %v", released.Done, err)
		}
		if _, there := b.sim.Server(s.ID); !there {
			t.Error("the server is gone")
		}
	})
	t.Run("the server is not deleted when it does not have the Machine's owner tag (F-39)", func(t *testing.T) {
		b := newBench(t)
		_, s := b.active(newMachine(t, "a", seedFields()))
		thief := newMachine(t, "b", seedFields())
		i := b.instance(broken(thief, s.ID, `"openstack"`))
		b.eventually("the deletion is refused", func() bool { return fault.Is(i.DeleteServer(b.ctx), fault.Invalid) })
		if _, there := b.sim.Server(s.ID); !there {
			t.Error("the server is gone")
		}
	})
}

func TestInvalidProviderSpecIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ document, says string }{
		"an error is returned when sshPublicKeys has the wrong type (F-39)":   {`{"sshPublicKeys":"a"}`, "sshPublicKeys"},
		"an error is returned when the provider spec is not an object (F-39)": {`[]`, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", nil)
			m.Spec.ProviderSpec.Value.Raw = []byte(tc.document)
			if _, err := b.cloud.Instance(b.ctx, m); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSpecOfAnotherCloud(t *testing.T) {
	t.Parallel()
	t.Run("the error says only that drover does not support the other cloud (MC-9, F-40)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", nil)
		m.Spec.ProviderSpec.Value.Raw = []byte(`{"aws":1,"cloudProvider":"aws","cloudProviderSpec":{"accessKeyId":"x","securityGroups":"y"},"operatingSystem":"amzn2"}`)
		_, err := b.cloud.Instance(b.ctx, m)
		want := "Machine kube-system/a: spec.providerSpec.value: cloudProvider aws is not supported by drover; supported: openstack"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

func TestSecretsCreatedFromFiles(t *testing.T) {
	t.Parallel()
	t.Run("drover removes the line break at the end of a value (MC-11, F-40)", func(t *testing.T) {
		b := newBench(t)
		secret := b.passwordSecret("files")
		for key, value := range secret.Data {
			secret.Data[key] = append(value, '\n')
		}
		secret.Data["identityEndpoint"] = []byte(" " + b.sim.AuthURL() + " \r\n")
		b.options.Configured = client.Credentials{}
		b.withReader(newReader(t, secret))
		b.active(newMachine(t, "a", fromSecret("files")))
	})
}

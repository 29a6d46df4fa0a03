package openstack

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// newCredential adds an application credential to the cloud. It returns the data of a Secret with it.
func (b *bench) newCredential(name string) map[string][]byte {
	b.t.Helper()
	id, err := b.sim.AddAppCredential(sim.AppCredential{Name: name, Secret: name, User: sim.MetaKubeUser, Project: sim.MetaKubeProject})
	if err != nil {
		b.t.Fatal(err)
	}
	return map[string][]byte{"identityEndpoint": []byte(b.sim.AuthURL()), "region": []byte(sim.MetaKubeRegion), "applicationCredentialID": []byte(id), "applicationCredentialSecret": []byte(name)}
}

// revoke ends the application credential that a Secret has.
func (b *bench) revoke(data map[string][]byte) {
	b.sim.RevokeAppCredential(string(data["applicationCredentialID"]))
	b.sim.RevokeTokens()
}

// ofClass returns a Machine with a MachineClass whose credentials are in a Secret, and an API server that has class and Secret.
func (b *bench) ofClass(t *testing.T, data map[string][]byte, change func(*v1alpha1.MachineClass)) (*v1alpha1.Machine, *corev1.Secret, ctrlclient.Client) {
	t.Helper()
	m, class, secret := bySecret(t, "a", nil)
	secret.Data = data
	if change != nil {
		change(class)
	}
	api := newReader(t, class, secret).(ctrlclient.Client)
	b.withReader(api)
	return m, secret, api
}

func TestACredentialOfAUserWhoHasLeft(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"": false, ", also by a new leader": true} {
		t.Run("refuses new servers with an error that names the Secret, and other credentials of the project delete the old ones"+name+" (report 62, report 63)", func(t *testing.T) {
			b := newBench(t)
			data := b.newCredential("theirs")
			m, _, api := b.ofClass(t, data, nil)
			_, s := b.active(m)
			b.records(m, s)
			b.revoke(data)
			if restart {
				b.withReader(api)
			}
			next := m.DeepCopy()
			next.Name, next.UID, next.Spec.ProviderID, next.Status = "next", "uid-next", nil, v1alpha1.MachineStatus{}
			var err error
			b.eventually("the credential is refused", func() bool {
				err = b.bringUp(next)
				return fault.Is(err, fault.Auth)
			})
			if e := fault.Of(err); e.Code != fault.CodeUnauthorized || !strings.Contains(err.Error(), "Secret kube-system/a") {
				t.Errorf("the error is %v", err)
			}
			leaves(m)
			b.vanishes(m)
			b.nothingLeft()
		})
	}
	t.Run("does not hold a deletion: it goes on as soon as any Machine of the project has credentials that work (report 63)", func(t *testing.T) {
		b := newBench(t)
		data, ours := b.newCredential("theirs"), b.newCredential("ours")
		m, _, api := b.ofClass(t, data, nil)
		_, s := b.active(m)
		b.records(m, s)
		b.revoke(data)
		b.options.Configured = client.Credentials{}
		other, class, secret := bySecret(t, "other", nil)
		secret.Data = ours
		for _, o := range []ctrlclient.Object{class, secret} {
			if err := api.Create(b.ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		b.withReader(api)
		leaves(m)
		for range 10 {
			b.pass(time.Minute)
			if i, err := b.cloud.Instance(b.ctx, m); err == nil {
				if f, err := i.Observe(b.ctx); err == nil && f.Synced && (f.Server == nil || f.Gone) {
					t.Fatalf("without credentials that work: %+v", f)
				}
			}
		}
		b.synced(other)
		b.vanishes(m)
		b.nothingLeft()
	})
}

func TestNewCredentialsOfTheSameProject(t *testing.T) {
	t.Parallel()
	deleting := func(c *v1alpha1.MachineClass) {
		c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/in-use"}
	}
	for name, tt := range map[string]struct {
		change  func(*v1alpha1.MachineClass)
		restart bool
	}{
		"in a Secret replace no server (report 65, report 66)":                                                   {nil, false},
		"in a Secret replace no server, although drover restarts before it has used them (report 65, report 66)": {nil, true},
		"in the Secret of a class that is being deleted are used by its Machines (report 67)":                    {deleting, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.options.Configured = client.Credentials{}
			old := b.newCredential("first")
			m, secret, api := b.ofClass(t, old, tt.change)
			_, s := b.active(m)
			b.records(m, s)
			secret.Data = b.newCredential("second")
			if err := api.Update(b.ctx, secret); err != nil {
				t.Fatal(err)
			}
			b.revoke(old)
			if tt.restart {
				b.withReader(api)
			}
			b.eventually("the server is seen with the new credentials", func() bool {
				i, err := b.cloud.Instance(b.ctx, m)
				if err != nil {
					return false
				}
				f, err := i.Observe(b.ctx)
				if f.Gone {
					t.Fatal("the server counts as gone")
				}
				return err == nil && f.Synced && f.Outdated == "" && f.Server != nil && f.Server.ID == s.ID && f.Server.State == cloud.ServerActive
			})
			next := m.DeepCopy()
			next.Name, next.UID, next.Spec.ProviderID, next.Status = "next", "uid-next", nil, v1alpha1.MachineStatus{}
			b.eventually("the next Machine has a server", func() bool { return b.bringUp(next) == nil })
			if n := b.calls("DELETE /servers/{id}"); n != 0 || b.sim.ServerCount() != 2 {
				t.Errorf("%d deletions, %d servers", n, b.sim.ServerCount())
			}
			leaves(m)
			b.vanishes(m)
		})
	}
}

func TestAMachineThatNeverHadCredentialsThatWork(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string][]byte{
		"because its Secret does not exist": nil,
		"because Keystone refuses them":     {"applicationCredentialID": []byte("none"), "applicationCredentialSecret": []byte("none")},
	} {
		for with, configured := range map[string]bool{"": true, ", and drover has no other credentials": false} {
			t.Run(name+with+", can be deleted at once (report 136)", func(t *testing.T) {
				b := newBench(t)
				m, secret, api := b.ofClass(t, data, nil)
				if data == nil {
					if err := api.Delete(b.ctx, secret); err != nil {
						t.Fatal(err)
					}
				} else {
					secret.Data["identityEndpoint"], secret.Data["region"] = []byte(b.sim.AuthURL()), []byte(sim.MetaKubeRegion)
					if err := api.Update(b.ctx, secret); err != nil {
						t.Fatal(err)
					}
				}
				if !configured {
					b.options.Configured = client.Credentials{}
				}
				b.withReader(api)
				if err := b.bringUp(m); err == nil {
					t.Fatal("the Machine has a server")
				}
				leaves(m)
				b.vanishes(m)
				b.nothingLeft()
			})
		}
	}
}

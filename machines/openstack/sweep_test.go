package openstack

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

// living is a reader that lists the existing Machines.
type living struct {
	ctrlclient.Reader
	mu   sync.Mutex
	uids []types.UID
}

func (l *living) List(_ context.Context, list ctrlclient.ObjectList, _ ...ctrlclient.ListOption) error {
	machines, ok := list.(*v1alpha1.MachineList)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range l.uids {
		m := v1alpha1.Machine{}
		m.UID = uid
		machines.Items = append(machines.Items, m)
	}
	return nil
}

func (l *living) are(uids ...types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uids = uids
}

// tenants is a driver in virtual time with a simulated cloud of many users and projects.
type tenants struct {
	*testing.T
	sim      *sim.Cloud
	cloud    *Cloud
	registry *prometheus.Registry
	living   living
}

// inTenants runs a test in a synctest bubble, with a new tenants.
func inTenants(t *testing.T, test func(*tenants)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &tenants{T: t, registry: prometheus.NewRegistry(), sim: sim.New(sim.Config{Seed: sim.SeedMetaKube})}
		var err error
		w.cloud, err = New(Options{
			HTTP: w.sim.RoundTripper(), Registry: w.registry, ClusterID: testCluster,
			Options: spec.Options{Reader: &w.living, IdentityOverride: true, Configured: client.Credentials{
				IdentityEndpoint: w.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
				DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = w.cloud.Start(ctx) })
		all.Go(func() {
			for {
				select {
				case <-w.cloud.Changes():
				case <-ctx.Done():
					return
				}
			}
		})
		test(w)
		stop()
		all.Wait()
		w.sim.Close()
	})
}

// machine returns a Machine with its own credentials, or without credentials when user is empty.
func (w *tenants) machine(name, user, password, project string) *v1alpha1.Machine {
	f := seedFields()
	if user != "" {
		f.with("identityEndpoint", w.sim.AuthURL()).with("username", user).with("password", password).with("domainName", sim.MetaKubeDomain).with("projectName", project)
	}
	return newMachine(w.T, name, f)
}

// held counts the connections, projects, Machines, goroutines and metric series that the driver keeps in memory.
type held struct{ connections, projects, machines, goroutines, series int }

func (w *tenants) held() held {
	w.Helper()
	synctest.Wait()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	// Gather starts goroutines of its own, which may still be ending when it returns.
	synctest.Wait()
	h := held{
		connections: len(w.cloud.connections.all()), projects: len(w.cloud.connections.projects()),
		goroutines: w.goroutines(),
	}
	for range w.cloud.machines.interests {
		h.machines++
	}
	for _, f := range families {
		h.series += len(f.GetMetric())
	}
	return h
}

// bubble finds the number of the synctest bubble in the first line of a goroutine's stack.
var bubble = regexp.MustCompile(`(?m)^goroutine \d+ .*\[.*(synctest bubble \d+).*\]:$`)

// goroutines returns how many goroutines the synctest bubble of the test has. runtime.NumGoroutine would also count those that
// earlier tests of the process leave behind for a moment.
func (w *tenants) goroutines() int {
	w.Helper()
	all := make([]byte, 1<<20)
	for runtime.Stack(all, true) == len(all) {
		all = make([]byte, 2*len(all))
	}
	found := bubble.FindAllSubmatch(all, -1)
	n := 0
	for _, g := range found {
		// The first goroutine is the calling one.
		if bytes.Equal(g[1], found[0][1]) {
			n++
		}
	}
	if n == 0 {
		w.Fatal("no stack names the synctest bubble of its goroutine")
	}
	return n
}

func TestStateOfUnusedConnectionsIsRemoved(t *testing.T) {
	t.Run("drover keeps no connection, project or goroutine for 200 OpenStack users an hour after it last used their credentials (F-12)", func(t *testing.T) {
		inTenants(t, testWhatNobodyUsesEnds)
	})
}

func testWhatNobodyUsesEnds(w *tenants) {
	const users, templates = 200, 10_000
	own := w.machine("own", "", "", "")
	w.living.are(own.UID)
	ask := func(m *v1alpha1.Machine) {
		if _, err := w.cloud.Instance(w.Context(), m); err != nil {
			w.Fatal(err)
		}
	}
	ask(own)
	time.Sleep(time.Hour)
	start := w.held()
	for n := range users {
		name := fmt.Sprint("user-", n)
		w.sim.AddProject(name, sim.MetaKubeDomain)
		w.sim.AddUser(sim.User{Name: name, Password: name, Projects: []string{name}})
		ask(w.machine(name, name, name, name))
	}
	for n := range templates {
		// The password is wrong, so the connection never gets a project.
		m := w.machine("template", sim.MetaKubeUser, fmt.Sprint(n), sim.MetaKubeProject)
		_, _ = w.cloud.Shape(w.Context(), "kube-system", templateOf(m))
	}
	time.Sleep(time.Minute)
	if most := w.held(); most.projects != users+1 || most.connections != users+templates+1 || most.machines != users+1 {
		w.Fatalf("at the most: %+v", most)
	}
	time.Sleep(time.Hour)
	end := w.held()
	// A new response code may add one series for all groups.
	if grown := end.series - start.series; grown < 0 || grown > 1 {
		w.Errorf("%d series, at the start %d", end.series, start.series)
	}
	if end.series = start.series; end != start {
		w.Errorf("got %+v, at the start %+v", end, start)
	}
}

func TestProjectKeepsAWorkingConnection(t *testing.T) {
	t.Run("a project keeps its connection when the password in its Machine's spec becomes wrong, until the Machine is gone (F-12)", func(t *testing.T) {
		inTenants(t, func(w *tenants) {
			project := w.sim.AddProject("theirs", sim.MetaKubeDomain)
			w.sim.AddUser(sim.User{Name: "they", Password: "good", Projects: []string{"theirs"}})
			m := w.machine("a", "they", "good", "theirs")
			w.living.are(m.UID)
			if _, err := w.cloud.Instance(w.Context(), m); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			wrong := w.machine("a", "they", "bad", "theirs")
			wrong.Status.ProviderStatus = (&provider.Record{ProjectID: project, Region: sim.MetaKubeRegion}).MergeInto(nil)
			for range 12 {
				if _, err := w.cloud.Instance(w.Context(), wrong); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
			}
			if n := w.held().projects; n != 1 {
				t.Errorf("%d projects are followed, want that of the Machine", n)
			}
			w.living.are()
			time.Sleep(time.Hour)
			if n := w.held().projects; n != 0 {
				t.Errorf("%d projects are followed without a Machine, want none", n)
			}
		})
	})
}

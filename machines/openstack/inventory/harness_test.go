package inventory

import (
	"context"
	"iter"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

const testCluster = "c1"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// machine is a registry of Machines that holds only this Machine.
type machine state.Machine

func (m machine) Get(uid types.UID) (state.Machine, bool) { return state.Machine(m), uid == m.UID }

func (m machine) All() iter.Seq[state.Machine] {
	return func(yield func(state.Machine) bool) { yield(state.Machine(m)) }
}

func (m machine) Naming(serverID string) types.UID { return m.when(m.ServerID == serverID) }

func (m machine) when(is bool) types.UID {
	if is {
		return m.UID
	}
	return ""
}

// newProject returns a project whose clock shows noon and whose only registered Machine is m. It makes no call to the cloud.
func newProject(t *testing.T, m state.Machine) *Project {
	t.Helper()
	return New(Options{
		Clock: clocktesting.NewFakeClock(noon), Cluster: testCluster, Site: state.Site{Project: "p", Region: "r"}, Machines: machine(m),
		Changed: func(context.Context, *Project, state.Change) {},
		Other:   func(*Project, *client.Session) *client.Session { return nil },
	})
}

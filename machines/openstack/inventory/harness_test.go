package inventory

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/openstack/client"
)

const testCluster = "c1"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// machines are the Machines that asked for their cloud side, by UID.
type machines map[types.UID]Machine

func (m machines) Get(uid types.UID) (Machine, bool) {
	found, ok := m[uid]
	return found, ok
}

func (m machines) Naming(serverID string) types.UID {
	return m.with(func(m Machine) bool { return m.ServerID == serverID })
}

func (m machines) Called(serverName string) types.UID {
	return m.with(func(m Machine) bool { return m.ServerName == serverName })
}

func (m machines) with(has func(Machine) bool) types.UID {
	for uid, one := range m {
		if has(one) {
			return uid
		}
	}
	return ""
}

// newProject returns a project at noon that knows these Machines and makes no call.
func newProject(t *testing.T, known ...Machine) *Project {
	t.Helper()
	all := machines{}
	for _, m := range known {
		all[m.UID] = m
	}
	return New(Options{
		Clock: clocktesting.NewFakeClock(noon), ClusterID: testCluster, Site: Site{"p", "r"}, Machines: all,
		Changed: func(context.Context, *Project, Change) {},
		Other:   func(*Project, *client.Session) *client.Session { return nil },
	})
}

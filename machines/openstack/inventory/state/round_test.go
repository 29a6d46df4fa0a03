package state

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// list applies one round of lists at the given time. The list of servers has the given rows. l are the ports and floating IPs,
// which are applied only if their list is due.
func (p *Project) list(at time.Time, l AddressLists, rows ...ServerRow) (Round, Change) {
	r := p.Round(at)
	if r.Addresses {
		p.ApplyAddresses(l, at, at)
	}
	_, news := p.Apply(Answers{Round: r, Rows: rows, Date: at, Now: at, Looked: r.SecondLook})
	return r, news
}

// active returns the row of an ACTIVE server of a Machine.
func active(id string, machine types.UID) ServerRow {
	return ServerRow{ID: id, Name: "worker-1", Status: statusActive, Updated: noon, Metadata: testCluster.metadata(machine)}
}

func TestEachPollRequestsOnlyTheListsThatAreDue(t *testing.T) {
	p := newProject()
	first, news := p.list(noon, AddressLists{})
	if !first.Full || !first.Addresses || !first.First || !first.Since.IsZero() {
		t.Errorf("the first round lists %+v, want everything", first)
	}
	if !news.All || !p.isSynced() {
		t.Errorf("after the first round: change %+v, synced %v", news, p.isSynced())
	}
	second, news := p.list(noon.Add(time.Minute), AddressLists{})
	if second.Full || second.Addresses || !second.Since.Equal(noon) {
		t.Errorf("the second round lists %+v, want changes alone", second)
	}
	if news.All || len(news.Servers) > 0 {
		t.Errorf("got change %+v, want none", news)
	}
	later := noon.Add(time.Minute + AddressPeriod)
	if due := p.Round(later); !due.Full || !due.Addresses || due.First {
		t.Errorf("much later the round lists %+v, want everything once more", due)
	}
	p.AddressesFailed(later)
	if p.Round(later.Add(addressRetry-time.Second)).Addresses || !p.Round(later.Add(addressRetry)).Addresses {
		t.Errorf("after a failure ports are not listed again after %s", addressRetry)
	}
}

func TestServerCreateThatThePreviousLeaderPossiblySent(t *testing.T) {
	l := AddressLists{Ports: []Port{{ID: "a", Description: portTag.String()}}}
	serverTag := testCluster.Tag(cloud.ResourceServer, "u1", 0)
	for name, tc := range map[string]struct {
		began   time.Duration // time from the start of polling to the first list
		machine Machine
		rows    []ServerRow
		want    bool
	}{
		"is in doubt when the first lists show a port of the Machine and no server":                                                  {0, Machine{UID: "u1"}, nil, true},
		"is in doubt when drover has not yet reconciled the Machine that the port belongs to":                                        {0, Machine{UID: "u2"}, nil, true},
		"is not in doubt when the list shows the Machine's server":                                                                   {0, Machine{UID: "u1"}, []ServerRow{active("s1", "u1")}, false},
		"is not in doubt when spec.providerID names the Machine's server":                                                            {0, Machine{UID: "u1", ServerID: "s1"}, nil, false},
		"is not in doubt when drover requests its first list three seconds after its start, because that list would show the server": {SecondLookAfter, Machine{UID: "u1"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.began = noon.Add(-tc.began)
			p.list(noon, l, tc.rows...)
			if got := p.creates[serverTag].inherited; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("stays in doubt until the second look at the Machine's port, which is due three seconds after drover's start", func(t *testing.T) {
		p := newProject(Machine{UID: "u1"})
		p.list(noon, l)
		err := p.CloseCreate(serverTag, noon.Add(time.Hour))
		if p.Facts(&Machine{UID: "u1"}).Synced || err == nil || !strings.Contains(err.Error(), "drover started at 12:00:00") {
			t.Errorf("an absence counts before the second look: %v", err)
		}
		if r := p.Round(noon.Add(SecondLookAfter - time.Second)); r.SecondLook {
			t.Errorf("too early: %+v", r)
		}
		r, news := p.list(noon.Add(SecondLookAfter), l)
		if !r.SecondLook || !slices.Equal(r.Ports, []string{"a"}) || !slices.Contains(news.Machines, "u1") {
			t.Errorf("round %+v, change %+v", r, news)
		}
		if err := p.CloseCreate(serverTag, noon.Add(SecondLookAfter)); err != nil {
			t.Error(err)
		}
	})
	t.Run("is not in doubt instead of a create of this process, whose doubt the second look does not end", func(t *testing.T) {
		p := newProject(Machine{UID: "u1"})
		p.attempted(serverTag, noon)
		p.list(noon, l)
		p.list(noon.Add(SecondLookAfter), l)
		if err := p.CloseCreate(serverTag, noon.Add(SecondLookAfter)); err == nil || !strings.Contains(err.Error(), "the call at 12:00:00 created the server") {
			t.Errorf("got %v", err)
		}
	})
}

func TestFailedListsAreRetriedWithAnIncreasingBackOff(t *testing.T) {
	p := newProject()
	p.list(noon, AddressLists{})
	lost := errors.New("no answer")
	for n, want := range []time.Duration{FastPeriod, 2 * FastPeriod, 4 * FastPeriod} {
		if got := p.Failed(lost, noon); got != (Failure{Next: want, First: n == 0}) {
			t.Errorf("failure %d: got %+v, want the next try in %s", n, got, want)
		}
	}
	for range 20 {
		p.Failed(lost, noon)
	}
	if next := p.Failed(lost, noon).Next; next != RestPeriod {
		t.Errorf("after many failures: next try in %s, want %s", next, RestPeriod)
	}
	slow := fault.New(fault.RateLimited, fault.CodeUnknown, "slow down")
	slow.RetryAfter = 2 * time.Minute
	if next := p.Failed(slow, noon).Next; next != slow.RetryAfter {
		t.Errorf("next try in %s, want the cloud's Retry-After", next)
	}
	if _, news := p.list(noon.Add(time.Minute), AddressLists{}); !news.All || p.failure != nil {
		t.Errorf("when lists succeed again: %+v, %v", news, p.failure)
	}
}

func TestListsOfServersThatKeepFailing(t *testing.T) {
	p := newProject()
	p.list(noon, AddressLists{})
	refused := fault.New(fault.Transient, fault.CodeCloudUnavailable, "listing servers: connection refused")
	outdated := func() string { return p.Facts(&Machine{UID: "u1"}).Outdated }
	t.Run("Machines do not report the failure during its first minute", func(t *testing.T) {
		for _, after := range []time.Duration{0, time.Minute} {
			if p.Failed(refused, noon.Add(after)).Outdated || outdated() != "" {
				t.Errorf("after %s: %q", after, outdated())
			}
		}
	})
	t.Run("after two minutes, all Machines are reconciled once, and report since when lists have failed (F-28)", func(t *testing.T) {
		p := newProject()
		p.list(noon, AddressLists{})
		p.Failed(refused, noon)
		if !p.Failed(refused, noon.Add(OutdatedAfter)).Outdated || p.Failed(refused, noon.Add(2*OutdatedAfter)).Outdated {
			t.Error("Machines are not reconciled exactly once")
		}
		want := "listing the servers has failed since " + noon.UTC().Format(time.RFC3339) + ": listing servers: connection refused"
		if got := p.Facts(&Machine{UID: "u1"}).Outdated; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		p.list(noon.Add(3*OutdatedAfter), AddressLists{})
		if got := p.Facts(&Machine{UID: "u1"}).Outdated; got != "" {
			t.Errorf("after a list: %q", got)
		}
	})
}

func TestSinceWhenDroverSeesAServer(t *testing.T) {
	const joining = types.UID("u1")
	seen := func(p *Project) time.Time { return p.Facts(&Machine{UID: joining}).Server.Seen }
	p := newProject(Machine{UID: joining})
	p.list(noon, AddressLists{}, active("s", joining))
	p.list(noon.Add(time.Minute), AddressLists{}, active("s", joining))
	t.Run("a server is seen since the first list that has it, by drover's clock (F-63)", func(t *testing.T) {
		if got := seen(p); !got.Equal(noon) {
			t.Errorf("got %v, want %v", got, noon)
		}
	})
	t.Run("after lists have failed for longer than a Machine may wait for its Node, the server is seen since they succeed again (F-63)", func(t *testing.T) {
		lost := fault.New(fault.Transient, fault.CodeCloudUnavailable, "connection refused")
		p.Failed(lost, noon.Add(2*time.Minute))
		p.Failed(lost, noon.Add(20*time.Minute))
		back := noon.Add(21 * time.Minute)
		p.list(back, AddressLists{}, active("s", joining))
		if got := seen(p); !got.Equal(back) {
			t.Errorf("got %v, want %v", got, back)
		}
		p.list(back.Add(time.Minute), AddressLists{}, active("s", joining))
		if got := seen(p); !got.Equal(back) {
			t.Errorf("after another list: got %v, want %v", got, back)
		}
	})
}

package openstack

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
)

// project follows the resources of one project in one region, for all Machines that live there, whatever credentials
// they use.
type project struct {
	clock     clock.Clock
	clusterID string
	// changed is told what is new.
	changed func(p *project, c change)
	// other gives a session of other credentials for the same project; nil: there is none.
	other func(p *project, than *session) *session
	// wanted tells whether a Machine of ours has that UID.
	wanted func(types.UID) bool
	kicks  chan struct{}

	mu        sync.Mutex
	session   *session
	inventory *inventory
	// stamp is the cloud's time of the last list; lastFull, on our clock, when the last complete one was begun.
	stamp    time.Time
	lastFull time.Time
	fulls    int
	// owned is true once ports and floating IPs have been listed.
	owned    bool
	ports    map[types.UID]map[int]ownedPort
	floating map[types.UID]ownedIP
	// attempts are creates with an unknown outcome, by mark.
	attempts map[mark]attempt
	// failures in a row of listing.
	failures int
	failure  error
}

// ownedPort is a port that bears a Machine's mark.
type ownedPort struct {
	id, networkID string
	addresses     []string
	// doubtful: the cloud said something that makes us doubt that it is still there.
	doubtful bool
}

// ownedIP is a floating IP that bears a Machine's mark.
type ownedIP struct {
	id, address, portID string
}

func newProject(s *session, c clock.Clock, clusterID string) *project {
	return &project{
		clock: c, clusterID: clusterID, session: s, inventory: newInventory(), kicks: make(chan struct{}, 1),
		ports: map[types.UID]map[int]ownedPort{}, floating: map[types.UID]ownedIP{}, attempts: map[mark]attempt{},
	}
}

// syncedLocked tells whether an absence may be believed: all lists have been seen since the start. The caller holds the
// lock.
func (p *project) syncedLocked() bool { return p.owned && p.fulls > 0 }

// use makes the project ask with these credentials from now on: those that came last work longest.
func (p *project) use(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
}

// kick asks for a list soon.
func (p *project) kick() {
	select {
	case p.kicks <- struct{}{}:
	default:
	}
}

// run lists until ctx ends.
func (p *project) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.wait(ctx, p.poll(ctx))
	}
}

// wait sleeps for that long, or until fastPeriod after the first kick.
func (p *project) wait(ctx context.Context, period time.Duration) {
	due := p.clock.Now().Add(period)
	for {
		left := due.Sub(p.clock.Now())
		if left <= 0 {
			return
		}
		timer := p.clock.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			return
		case <-p.kicks:
			timer.Stop()
			if soon := p.clock.Now().Add(fastPeriod); soon.Before(due) {
				due = soon
			}
		}
	}
}

// poll makes one round of lists, and gives the time until the next.
func (p *project) poll(ctx context.Context) time.Duration {
	p.mu.Lock()
	s, stamp := p.session, p.stamp
	started := p.clock.Now()
	full := stamp.IsZero() || isFullDue(started, p.lastFull, len(p.attempts) > 0)
	owned := p.owned
	p.mu.Unlock()

	var err error
	if !owned {
		err = p.listOwned(ctx, s)
	}
	var rows []row
	var date time.Time
	if err == nil {
		rows, date, err = listServers(ctx, s, stamp, full)
	}
	if err != nil {
		if other := p.other(p, s); other != nil && fault.Is(err, fault.Auth) {
			p.use(other)
		}
		return p.failed(ctx, err)
	}
	p.mu.Lock()
	before, failure := p.syncedLocked(), p.failure
	p.owned, p.failures, p.failure = true, 0, nil
	if !date.IsZero() {
		p.stamp = date
	}
	l := listed{rows: rows, full: full, started: started, now: p.clock.Now()}
	ids := p.inventory.fold(l)
	p.settleServers()
	if full {
		p.lastFull = started
		p.fulls++
	}
	next := p.inventory.period(l.now, len(p.attempts) > 0, p.hurriesFor)
	news := p.inventory.concerned(ids)
	p.mu.Unlock()
	if !before || failure != nil {
		log.FromContext(ctx).Info("following the servers of a project", "servers", len(rows))
		news.all = true
	}
	p.changed(p, news)
	return next
}

// settleServers drops the attempts whose server has shown up; the caller holds the lock.
func (p *project) settleServers() {
	for m := range p.attempts {
		if living, gone := p.inventory.ofMachine(m.machine, ""); m.kind == serverKind && len(living)+len(gone) > 0 {
			delete(p.attempts, m)
		}
	}
}

// hurriesFor: servers of our cluster, and those of Machines that we know (machine-controller's bear no cluster).
func (p *project) hurriesFor(k *knownServer) bool {
	uid := k.machine()
	return uid != "" && (k.Metadata[metadataClusterID] == p.clusterID || p.wanted(uid))
}

// failed keeps what is known, and gives a growing time until the next try.
func (p *project) failed(ctx context.Context, err error) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures == 0 {
		log.FromContext(ctx).Info("the servers of a project cannot be listed; what is known stays", "error", err.Error())
	}
	p.failures++
	p.failure = err
	wait := fastPeriod
	for range min(p.failures, 6) - 1 {
		wait *= 2
	}
	return max(min(wait, restPeriod), fault.Of(err).RetryAfter)
}

const (
	// pageSize is Nova's own largest page.
	pageSize = 1000
	// restarts is how often a list is begun again because the server that marked a page has vanished.
	restarts = 3
)

// listServers reads all pages of one list. It gives the rows, and the cloud's time at which the list was begun. A page
// that fails fails the list.
func listServers(ctx context.Context, s *session, since time.Time, full bool) ([]row, time.Time, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if !full {
		query.Set("changes-since", since.Add(-overlap).UTC().Format(time.RFC3339))
	}
	var err error
	for range restarts {
		var rows []row
		var date time.Time
		rows, date, err = serverPages(ctx, s, query)
		if fault.Is(err, fault.Invalid) && len(rows) > 0 {
			continue
		}
		return rows, date, err
	}
	return nil, time.Time{}, err
}

// serverPages reads the pages of one list; with an error, the rows of the pages before it.
func serverPages(ctx context.Context, s *session, query url.Values) (rows []row, date time.Time, err error) {
	for range maxPages {
		var body struct {
			Servers []row  `json:"servers"`
			Links   []link `json:"servers_links"`
		}
		err := s.do(ctx, call{service: computeService, doing: "listing servers"}, func(ctx context.Context, client *gophercloud.ServiceClient) error {
			resp, err := client.Get(ctx, client.ServiceURL("servers", "detail")+"?"+query.Encode(), &body, nil)
			if err == nil && date.IsZero() {
				date = cloudTime(resp.Header, body.Servers)
			}
			return err
		})
		if err != nil {
			return rows, date, err
		}
		rows = append(rows, body.Servers...)
		next := ""
		for _, k := range body.Links {
			if k.Rel == "next" {
				next = k.Href
			}
		}
		if next == "" || len(body.Servers) == 0 {
			return rows, date, nil
		}
		u, err := url.Parse(next)
		if err != nil {
			return rows, date, fault.New(fault.Unknown, fault.CodeUnknown, "listing servers: the link to the next page is %q", next)
		}
		query = u.Query()
	}
	return rows, date, fault.New(fault.Unknown, fault.CodeUnknown, "listing servers: the list has no end")
}

// cloudTime is the answer's Date; without one, the latest stamp in it.
func cloudTime(header http.Header, rows []row) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	var latest time.Time
	for i := range rows {
		if rows[i].Updated.After(latest) {
			latest = rows[i].Updated
		}
	}
	return latest
}

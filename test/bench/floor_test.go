package bench

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"
)

// enough is the ratio of a new time to the best time below which measureFloor accepts the new time as better and tries a
// higher concurrency.
const enough = 0.97

// floor holds how long a bare client, which has nothing to decide, needs for the same calls as drover.
type floor struct {
	// created is the time from the first call to the end of the last POST /servers. deleted is the time from the first
	// DELETE to the end of the last one. createdAt and deletedAt are the concurrencies at which these times were the
	// shortest.
	created, deleted     time.Duration
	createdAt, deletedAt int
}

func (f floor) String() string {
	return fmt.Sprintf("floor: last POST /servers after %.1f s with %d calls at a time, all gone after %.1f s with %d", f.created.Seconds(), f.createdAt, f.deleted.Seconds(), f.deletedAt)
}

// measureFloor creates and deletes n servers with a port each, and with a floating IP if floating is true. It tries 1,
// 2, 4 and 8 concurrent calls, as long as more of them are faster.
func (r *rig) measureFloor(n int, floating bool) floor {
	r.Helper()
	var best floor
	for _, width := range []int{1, 2, 4, 8} {
		c := r.newBareCloud(width)
		created := c.createAll(n, floating)
		deleted := c.deleteAll()
		r.Logf("bare client, %d at a time: last POST /servers after %.1f s, all gone after %.1f s", width, created.Seconds(), deleted.Seconds())
		better := false
		if width == 1 || created.Seconds() < enough*best.created.Seconds() {
			best.created, best.createdAt, better = created, width, true
		}
		if width == 1 || deleted.Seconds() < enough*best.deleted.Seconds() {
			best.deleted, best.deletedAt, better = deleted, width, true
		}
		if !better {
			break
		}
	}
	return best
}

// bareCloud creates and deletes servers with as many concurrent calls as it has slots.
type bareCloud struct {
	*rig
	// session sends its calls through the proxy, as drover does.
	session *session
	places  chan struct{}
	refs    references
	made    []bareServer
}

// references are the IDs of the objects that every server needs.
type references struct{ flavor, image, network, group, pool string }

// bareServer holds the IDs of one server, its port and its floating IP.
type bareServer struct{ server, port, address string }

func (r *rig) newBareCloud(width int) *bareCloud {
	r.Helper()
	ctx := r.Context()
	through, err := signIn(ctx, r.credentials, r.log.through(r.credentials.IdentityEndpoint))
	r.must(err)
	c := &bareCloud{rig: r, session: through, places: make(chan struct{}, width)}
	for _, want := range []struct {
		into                      *string
		service, path, kind, name string
	}{
		{&c.refs.flavor, "compute", "/flavors", "flavors", r.flavor},
		{&c.refs.image, "image", byName("/images", r.image), "images", r.image},
		{&c.refs.network, "network", byName("/networks", r.network), "networks", r.network},
		{&c.refs.pool, "network", byName("/networks", r.pool), "networks", r.pool},
		{&c.refs.group, "network", byName("/security-groups", r.group), "security_groups", r.group},
	} {
		*want.into, err = r.session.find(ctx, want.service, want.path, want.kind, want.name)
		r.must(err)
	}
	return c
}

// createAll creates n servers, and returns how long it took until the last POST /servers was answered. Before it returns, it
// waits until all servers are ACTIVE.
func (c *bareCloud) createAll(n int, floating bool) time.Duration {
	c.Helper()
	c.made = make([]bareServer, n)
	began := time.Now()
	next := make(chan int)
	var workers sync.WaitGroup
	for range cap(c.places) {
		workers.Go(func() {
			for i := range next {
				if err := c.create(&c.made[i], fmt.Sprintf("%s-floor-%d", c.name, i), floating); err != nil {
					c.Errorf("the bare client: %v", err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	took := time.Since(began)
	c.await("the bare client's servers are ACTIVE", func() bool { return c.serversOf("-floor-").active == n })
	return took
}

// create creates one server, its port and, if floating is true, its floating IP.
func (c *bareCloud) create(s *bareServer, name string, floating bool) error {
	ctx := c.Context()
	var answer struct{ Port, FloatingIP, Server row }
	port := object{"name": name, "description": c.name, "network_id": c.refs.network, "security_groups": []string{c.refs.group}}
	if err := c.session.post(ctx, "network", "/ports", object{"port": port}, &answer); err != nil {
		return err
	}
	s.port = answer.Port.ID
	if floating {
		ip := object{"description": c.name, "floating_network_id": c.refs.pool, "port_id": s.port}
		if err := c.session.post(ctx, "network", "/floatingips", object{"floatingip": ip}, &answer); err != nil {
			return err
		}
		s.address = answer.FloatingIP.ID
	}
	server := object{
		"name": name, "flavorRef": c.refs.flavor, "imageRef": c.refs.image, "networks": []object{{"port": s.port}},
		"metadata": object{"machine-uid": name}, "user_data": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("#", userDataSize))),
	}
	err := c.session.post(ctx, "compute", "/servers", object{"server": server}, &answer)
	s.server = answer.Server.ID
	return err
}

// userDataSize is about the size of drover's own user data, in bytes.
const userDataSize = 9000

// call runs f when a slot is free.
func (c *bareCloud) call(f func() error) error {
	c.places <- struct{}{}
	defer func() { <-c.places }()
	return f()
}

// deleteAll deletes what createAll created, and returns the time until the last DELETE is answered.
func (c *bareCloud) deleteAll() time.Duration {
	c.Helper()
	began := time.Now()
	ctx, stop := context.WithCancel(c.Context())
	ends := c.watchEnds(ctx)
	var all sync.WaitGroup
	for i, s := range c.made {
		all.Go(func() {
			err := c.call(func() error { return c.session.remove(ctx, "compute", "/servers/"+s.server) })
			if err == nil {
				<-ends[i]
				err = c.release(ctx, s)
			}
			if err != nil {
				c.Errorf("the bare client: %v", err)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	stop()
	return took
}

func (c *bareCloud) release(ctx context.Context, s bareServer) error {
	if s.address != "" {
		if err := c.call(func() error { return c.session.remove(ctx, "network", "/floatingips/"+s.address) }); err != nil {
			return err
		}
	}
	return c.call(func() error { return c.session.remove(ctx, "network", "/ports/"+s.port) })
}

// watchEnds returns one channel per created server. It closes the channel when a list of servers no longer contains the
// server.
func (c *bareCloud) watchEnds(ctx context.Context) []chan struct{} {
	ends := make([]chan struct{}, len(c.made))
	for i := range ends {
		ends[i] = make(chan struct{})
	}
	go func() {
		left := len(ends)
		ended := make([]bool, left)
		for ; left > 0 && ctx.Err() == nil; time.Sleep(look) {
			rows, err := c.session.list(ctx, "compute", "/servers?limit=1000", "servers")
			if err != nil {
				continue
			}
			there := map[string]bool{}
			for _, r := range rows {
				there[r.ID] = true
			}
			for i, s := range c.made {
				if !there[s.server] && !ended[i] {
					ended[i], left = true, left-1
					close(ends[i])
				}
			}
		}
	}()
	return ends
}

package openstack

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestTheLogOfCallsIsBoundedAndItsCountsAreNot(t *testing.T) {
	c := New(Config{})
	for i := range 2*maxCalls + 1 {
		c.calls.add(Call{Service: serviceCompute, Method: "GET", Path: "/servers", Status: i})
	}
	c.calls.add(Call{Service: serviceNetwork, Method: "GET", Path: "/ports"})
	if got := len(c.Calls()); got != maxCalls+2 {
		t.Errorf("%d calls are kept", got)
	}
	if got := c.CallCount(); got != 2*maxCalls+2 {
		t.Errorf("%d calls are counted", got)
	}
	if got := c.CallCount("GET /servers", "compute"); got != 2*maxCalls+1 {
		t.Errorf("%d calls of compute are counted", got)
	}
	if got := c.CallsByName()["GET /ports"]; got != 1 {
		t.Errorf("%d × GET /ports are counted", got)
	}
}

func TestDeletedServersAreArchivedBeforeTheyAreTooMany(t *testing.T) {
	c := New(Config{})
	c.compute.servers.put("living", &server{id: "living", state: active})
	for i := range 2 * maxDeleted {
		id := fmt.Sprintf("server-%d", i)
		c.compute.servers.put(id, &server{id: id, state: deleted})
		c.compute.bury()
	}
	if got := c.compute.servers.len(); got != maxDeleted+1 {
		t.Errorf("%d servers are remembered", got)
	}
	_, living := c.compute.servers.get("living")
	_, oldest := c.compute.servers.get("server-0")
	_, newest := c.compute.servers.get(fmt.Sprintf("server-%d", 2*maxDeleted-1))
	if !living || oldest || !newest {
		t.Errorf("living %v, oldest %v, newest %v", living, oldest, newest)
	}
}

func TestTokensThatEndedAreForgotten(t *testing.T) {
	now := time.Now()
	c := New(Config{Seed: SeedMetaKube})
	c.identity.tokens = map[string]*token{"old": {expires: now.Add(-time.Second)}, "new": {expires: now.Add(time.Hour)}}
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":%q,"secret":%q}}}}`,
		MetaKubeAppCredentialID, MetaKubeAppCredentialSecret)
	if r := c.identity.issueToken(&request{body: []byte(body), now: now}); r.status != 201 {
		t.Fatalf("status %d", r.status)
	}
	if _, there := c.identity.tokens["old"]; there || len(c.identity.tokens) != 2 {
		t.Errorf("%d tokens", len(c.identity.tokens))
	}
}

func TestIDsFollowFromWhatTheyAreDrawnFrom(t *testing.T) {
	ids := func(seed byte) string {
		c := New(Config{Seed: SeedMetaKube, Random: rand.NewChaCha8([32]byte{seed})})
		return c.AddProject("another", "Default")
	}
	one, again, other := ids(1), ids(1), ids(2)
	if one != again {
		t.Errorf("the same source gives %s and %s", one, again)
	}
	if one == other {
		t.Errorf("another source gives %s too", other)
	}
}

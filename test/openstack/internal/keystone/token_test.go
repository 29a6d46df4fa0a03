package keystone

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
)

func TestTheSimulatedKeystoneDeletesExpiredTokensWhenItIssuesAToken(t *testing.T) {
	now := time.Now()
	svc := New(kernel.New(clock.RealClock{}, rand.Reader), Config{TokenTTL: time.Hour})
	svc.AddUser(User{Name: "drover", Projects: []string{"metakube"}})
	id, err := svc.AddAppCredential(AppCredential{Name: "drover", Secret: "secret", User: "drover", Project: "metakube"})
	if err != nil {
		t.Fatal(err)
	}
	svc.tokens = map[string]*token{"old": {expires: now.Add(-time.Second)}, "new": {expires: now.Add(time.Hour)}}
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":%q,"secret":"secret"}}}}`, id)
	if r := svc.issueToken(&api.Request{Body: []byte(body), Now: now}); r.Status != 201 {
		t.Fatalf("status %d, want 201", r.Status)
	}
	if _, there := svc.tokens["old"]; there || len(svc.tokens) != 2 {
		t.Errorf("%d tokens, want the new one and the one that lives", len(svc.tokens))
	}
}

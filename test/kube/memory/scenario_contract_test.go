//go:build cluster

package memory_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kube/memory"
)

// operations is a case: a rule, and a function that makes requests. The answers of both servers must be the same, word for word.
type operations struct {
	rule string
	play func(*script)
}

// server is one of the two servers under comparison.
type server struct {
	config *rest.Config
	mapper meta.RESTMapper
	// nobody is a transport for requests without an identity. It is nil when a configuration without credentials has the same effect.
	nobody http.RoundTripper
}

func newServer(t *testing.T, config *rest.Config) server {
	t.Helper()
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, hc)
	if err != nil {
		t.Fatal(err)
	}
	return server{config: config, mapper: mapper}
}

func inMemory(t *testing.T) (server, *memory.Server) {
	t.Helper()
	objects, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(objects...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := memory.New(memory.Options{Catalog: catalog})
	if err != nil {
		t.Fatal(err)
	}
	out := newServer(t, s.Config("admin", "system:masters"))
	out.nobody = s.RoundTripper("")
	return out, s
}

func realOne(t *testing.T, components ...kube.Component) server {
	t.Helper()
	c := kube.ForTest(t, kube.Options{Components: components})
	s := newServer(t, c.Config)
	admin, err := client.New(c.Config, client.Options{Mapper: s.mapper})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), admin, "crds"); err != nil {
		t.Fatal(err)
	}
	return s
}

// compare runs every case on both servers, and fails the test when the answers differ.
func compare(t *testing.T, fake, truth server, cases []operations) {
	for i, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			var transcripts []string
			for _, s := range []server{truth, fake} {
				script := newScript(t, s.config, s.mapper, fmt.Sprintf("case-%d", i))
				script.nobody = s.nobody
				c.play(script)
				transcripts = append(transcripts, strings.Join(script.lines, "\n"))
			}
			if transcripts[0] == "" {
				t.Error("nothing was asked")
			}
			if diff := cmp.Diff(transcripts[0], transcripts[1]); diff != "" {
				t.Errorf("- the real server, + the one in memory:\n%s", diff)
			}
		})
	}
}

func TestTheInMemoryAPIServerAnswersLikeARealAPIServer(t *testing.T) {
	fake, _ := inMemory(t)
	compare(t, fake, realOne(t), joined(writes, applies, statuses, deletions, builtins, reads))
}

func TestTheInMemoryAPIServerCollectsGarbageLikeARealCluster(t *testing.T) {
	fake, _ := inMemory(t)
	compare(t, fake, realOne(t, kube.ControllerManager), collections)
}

func joined(tables ...[]operations) []operations {
	var out []operations
	for _, table := range tables {
		out = append(out, table...)
	}
	return out
}

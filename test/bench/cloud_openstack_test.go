//go:build openstack

package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/settings"
)

// BenchmarkScaleOnOpenStack is BenchmarkScale on the cloud that OS_CLOUD names in the file that OS_CLIENT_CONFIG_FILE names. The
// variables DROVER_TEST_… name the cloud's resources, as for the contract suite; the defaults are those that test/openstack/real
// seeds. The quota of servers can be changed when the file also has a cloud "admin".
func BenchmarkScaleOnOpenStack(b *testing.B) {
	drover := buildDrover(b)
	scaleStages(b, drover, named)
}

// named returns the cloud that OS_CLOUD and OS_CLIENT_CONFIG_FILE name.
func named(b *testing.B) cloudUnderTest {
	b.Helper()
	file, name := os.Getenv("OS_CLIENT_CONFIG_FILE"), os.Getenv("OS_CLOUD")
	if file == "" || name == "" {
		b.Fatal("set OS_CLIENT_CONFIG_FILE to a clouds.yaml and OS_CLOUD to the cloud in it that the benchmark may use; on Debian 12 test/openstack/real/up.sh makes one")
	}
	g := cloudUnderTest{
		flavor: setting("FLAVOR", "m1.small"), image: setting("IMAGE", "tiny"), network: setting("NETWORK", "demo-net"),
		group: setting("SECURITY_GROUP", "demo-sg"), pool: setting("POOL", "public"),
	}
	var err error
	if g.credentials, err = settings.Read(settings.Source{CloudsYAML: file, Cloud: name}); err != nil {
		b.Fatal(err)
	}
	if admin, err := settings.Read(settings.Source{CloudsYAML: file, Cloud: "admin"}); err == nil {
		g.limit = func(servers int) func() { return limitServers(b, g.credentials, admin, servers) }
	}
	return g
}

func setting(name, otherwise string) string {
	return cmp.Or(os.Getenv("DROVER_TEST_"+name), otherwise)
}

// limitServers sets the server quota of the member's project, and returns a function that restores it.
func limitServers(b *testing.B, member, admin client.Credentials, servers int) func() {
	ctx := context.WithoutCancel(b.Context())
	of, err := signIn(ctx, member, member.IdentityEndpoint)
	if err != nil {
		b.Fatal(err)
	}
	s, err := signIn(ctx, admin, admin.IdentityEndpoint)
	if err != nil {
		b.Fatal(err)
	}
	path := fmt.Sprintf("/os-quota-sets/%s", of.project)
	var before struct {
		Set struct{ Instances int } `json:"quota_set"`
	}
	if err := s.get(ctx, "compute", path, &before); err != nil {
		b.Fatal(err)
	}
	set := func(n int) {
		body := object{"quota_set": object{"instances": n, "force": true}}
		if _, err := s.send(ctx, http.MethodPut, s.services["compute"]+path, body, nil); err != nil {
			b.Errorf("setting the quota of servers to %d: %v", n, err)
		}
	}
	set(servers)
	return func() { set(before.Set.Instances) }
}

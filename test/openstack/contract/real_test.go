//go:build openstack

package contract

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	openstackclient "github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/settings"
)

// TestARealCloudBehavesLikeTheSimulatedCloud runs against the cloud OS_CLOUD in the file OS_CLIENT_CONFIG_FILE. The variables DROVER_TEST_… name the
// cloud's resources. Their defaults are the resources that test/openstack/real seeds. When the cloud is test/openstack/real,
// DROVER_TEST_RUNNER is that folder, and the tests can cause faults.
func TestARealCloudBehavesLikeTheSimulatedCloud(t *testing.T) {
	openReal(t)
	run(t, openReal, false)
}

func setting(name, otherwise string) string {
	return cmp.Or(os.Getenv("DROVER_TEST_"+name), otherwise)
}

func openReal(t *testing.T) *target {
	t.Helper()
	file, name := os.Getenv("OS_CLIENT_CONFIG_FILE"), os.Getenv("OS_CLOUD")
	if file == "" || name == "" {
		t.Fatal("set OS_CLIENT_CONFIG_FILE to a clouds.yaml and OS_CLOUD to the cloud in it that the suite may use; on Debian 12 test/openstack/real/prove.sh makes one and does all of it")
	}
	read := func(name string) (openstackclient.Credentials, error) {
		return settings.Read(settings.Source{CloudsYAML: file, Cloud: name})
	}
	member, err := read(name)
	if err != nil {
		t.Fatal(err)
	}
	if member.Username == "" || member.Password == "" {
		t.Fatalf("cloud %s: the suite signs in by user and password", name)
	}
	machines, err := strconv.Atoi(setting("MACHINES", "5"))
	if err != nil {
		t.Fatalf("DROVER_TEST_MACHINES: %v", err)
	}
	tg := &target{
		machines:    machines,
		credentials: member, pace: 200 * time.Millisecond, patience: 3 * time.Minute,
		flavor: setting("FLAVOR", "m1.small"), impossible: setting("FLAVOR_IMPOSSIBLE", "m1.impossible"), image: setting("IMAGE", "tiny"),
		network: setting("NETWORK", "demo-net"), subnet: setting("SUBNET", "demo-subnet"), pool: setting("POOL", "public"),
		group: setting("SECURITY_GROUP", "demo-sg"), keyPair: setting("KEY_PAIR", "demo-key"), zone: setting("ZONE", "az1"),
		volumeType: setting("VOLUME_TYPE", ""), diskless: setting("FLAVOR_DISKLESS", ""),
	}
	tg.reader, _ = read("reader")
	tg.other, _ = read("other")
	tg.admin, _ = read("admin")
	tg.otherNet, tg.sharedNet = setting("NETWORK_OTHER", "other-net"), setting("NETWORK_SHARED", "shared-net")
	if folder := os.Getenv("DROVER_TEST_RUNNER"); folder != "" {
		tg.diskless = "m1.diskless"
		tg.faulty, err = read(name + "-fault")
		if err != nil {
			t.Fatal(err)
		}
		tg.unrouted, tg.nearlyEmpty = "tiny-net", "tiny-public"
		tg.misfortune = func(t *testing.T) misfortune { return newRunner(t, folder) }
	}
	return tg
}

// runner causes faults in test/openstack/real, and undoes them when the test ends.
type runner struct{ folder string }

func newRunner(t *testing.T, folder string) *runner {
	t.Helper()
	r := &runner{folder: folder}
	t.Cleanup(func() { r.fault(t, "clear") })
	return r
}

func (r *runner) script(t *testing.T, text string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", `. "$0/env.sh"; `+text, r.folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return string(out)
}

func (r *runner) fault(t *testing.T, args ...string) {
	t.Helper()
	text := `/usr/bin/python3 "$0/stackctl.py" fault`
	for _, a := range args {
		text += " '" + a + "'"
	}
	r.script(t, text)
}

func (r *runner) limit(t *testing.T, what string, n int) {
	t.Helper()
	r.fault(t, "limit", what, strconv.Itoa(n))
}

// disable disables the host compute-N, which is the only host in zone azN.
func (r *runner) disable(t *testing.T, zone string) {
	t.Helper()
	for _, host := range strings.Fields(r.script(t, "computes")) {
		if zone == "" || strings.TrimPrefix(host, "compute-") == strings.TrimPrefix(zone, "az") {
			r.fault(t, "disable", host)
		}
	}
}

func (r *runner) fail(t *testing.T, server string) {
	t.Helper()
	r.fault(t, "fail", server)
}

func (r *runner) networkDown(t *testing.T) (up func()) {
	t.Helper()
	r.script(t, `"$0/down.sh" neutron`)
	up = sync.OnceFunc(func() { r.script(t, `"$0/up.sh" --no-seed`) })
	t.Cleanup(up)
	return up
}

func (r *runner) answer(t *testing.T, f failure) {
	t.Helper()
	rule := doc{"service": f.service, "method": f.method, "path": regexp.QuoteMeta(f.path) + "($|[?])", "times": f.times}
	if f.status == 0 {
		rule["drop"] = "after"
	} else {
		rule["status"], rule["retry_after"] = f.status, f.retryAfter
	}
	raw, err := json.Marshal([]doc{rule})
	if err != nil {
		t.Fatal(err)
	}
	r.fault(t, "proxy", string(raw))
}

var identifier = regexp.MustCompile(`[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}`)

func (r *runner) calls(t *testing.T) []string {
	t.Helper()
	text := r.script(t, `curl -fs "http://$STACK_HOST:$STACK_PORT_FAULTCTL/log"; curl -fs -X DELETE "http://$STACK_HOST:$STACK_PORT_FAULTCTL/log" >/dev/null`)
	var log []struct{ Method, Path string }
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range log {
		path, _, _ := strings.Cut(c.Path, "?")
		for _, prefix := range []string{"/v2.1", "/v2.0", "/v2", "/v3"} {
			path = strings.TrimPrefix(path, prefix)
		}
		out = append(out, c.Method+" "+identifier.ReplaceAllString(filepath.Clean(path), "{id}"))
	}
	return out
}

package openstack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// complete returns a cloudProviderSpec with this identity endpoint, and with user, password, domain and project.
func complete(endpoint any) fields {
	return seedFields().with("identityEndpoint", endpoint).with("username", sim.MetaKubeUser).with("password", sim.MetaKubePassword).
		with("domainName", sim.MetaKubeDomain).with("projectName", sim.MetaKubeProject)
}

// inSecret returns a reference to a key of a Secret.
func inSecret(namespace, name, key string) map[string]any {
	return map[string]any{"secretKeyRef": map[string]string{"namespace": namespace, "name": name, "key": key}}
}

// counter is an HTTP server that counts its requests.
type counter struct {
	*httptest.Server
	asked atomic.Int64
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(c.Close)
	return c
}

func TestOnlyAllowedEndpointsGetRequests(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, b *bench, spec fields, says ...string) {
		t.Helper()
		_, err := b.cloud.Instance(b.ctx, newMachine(t, "a", spec))
		if e := fault.Of(err); e == nil || e.Class != fault.Auth || e.Code != fault.CodeEndpointNotAllowed {
			t.Fatalf("got %v, want EndpointNotAllowed", err)
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	t.Run("an endpoint that a spec names and --allowed-endpoints does not allow gets no request (F-4, F-9)", func(t *testing.T) {
		b, thief := newDirectBench(t), newCounter(t)
		b.options.AllowedEndpoints = nil
		b.restart()
		refused(t, b, complete(thief.URL+"/v3"), thief.URL+" is not allowed", "--allowed-endpoints="+thief.URL)
		if _, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", complete(thief.URL+"/v3")))); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeEndpointNotAllowed {
			t.Errorf("a template: %v", err)
		}
		if n := thief.asked.Load(); n != 0 {
			t.Errorf("%d requests were sent to it", n)
		}
	})
	t.Run("when the endpoint of a Machine with a server is refused, one log line names the flag that would allow the endpoint (F-4)", func(t *testing.T) {
		b := newIdleBench(t)
		b.direct = true
		var lines []string
		ctx := log.IntoContext(b.ctx, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		b.options.AllowedEndpoints, b.options.Configured = nil, client.Credentials{}
		b.start()
		living := newMachine(t, "living", complete(b.sim.AuthURL()))
		living.Spec.ProviderID = new("openstack:///11111111-0000-0000-0000-000000000001")
		for range 3 {
			for _, m := range []string{"new", "living"} {
				machine := living
				if m == "new" {
					machine = newMachine(t, m, complete("https://new.example/v3"))
				}
				if _, err := b.cloud.Instance(ctx, machine); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeEndpointNotAllowed {
					t.Fatalf("%s: %v", m, err)
				}
			}
		}
		flag := "--allowed-endpoints=" + strings.TrimSuffix(b.sim.AuthURL(), "/v3")
		named := slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "--allowed-endpoints") })
		if len(named) != 1 || !strings.Contains(named[0], flag) || strings.Contains(named[0], "new.example") {
			t.Errorf("logged %q, want one line with %s", named, flag)
		}
		if n := b.calls(); n != 0 {
			t.Errorf("%d calls reached the cloud", n)
		}
		b.options.AllowedEndpoints = []string{strings.TrimPrefix(flag, "--allowed-endpoints="), "127.0.0.1"}
		b.restart()
		b.active(newMachine(t, "b", complete(b.sim.AuthURL())))
	})
	for _, tt := range []struct {
		name, namespace, own string
		allowed              []string
		passes               bool
	}{
		{"an endpoint from a Secret in drover's namespace gets no request, because a Machine in another namespace may not reference it", "drover", "drover", []string{}, false},
		{"an endpoint from a Secret in a namespace of --secret-namespaces gets requests", "clouds", "drover", []string{"clouds"}, true},
		{"an endpoint from a Secret in the Machine's namespace gets no request when drover runs elsewhere and so does not trust it", "kube-system", "drover", nil, false},
		{"an endpoint from a Secret in the Machine's namespace gets requests when drover runs there too and so trusts it", "kube-system", "kube-system", nil, true},
	} {
		t.Run(tt.name+" (F-4)", func(t *testing.T) {
			b := newDirectBench(t)
			b.options.Configured, b.options.OwnNamespace, b.options.AllowedNamespaces = client.Credentials{}, tt.own, tt.allowed
			b.options.AllowedEndpoints = nil
			secret := secretOf("cloud", map[string]string{"endpoint": "http://127.0.0.9:1/v3", "password": "secret-word"})
			secret.Namespace = tt.namespace
			b.withReader(newReader(t, secret))
			spec := complete(inSecret(tt.namespace, "cloud", "endpoint")).with("password", inSecret(tt.namespace, "cloud", "password"))
			m := newMachine(t, "a", spec)
			_, err := b.cloud.Instance(b.ctx, m)
			if (err == nil) != tt.passes {
				t.Errorf("got %v", err)
			}
			// A request to a loopback address is refused later, when drover connects for the sign-in.
			_, shape := b.cloud.Shape(b.ctx, m.Namespace, templateOf(m))
			if shape == nil || strings.Contains(shape.Error(), "signing in at") != tt.passes {
				t.Errorf("got %v from the template; want a sign-in: %v", shape, tt.passes)
			}
			if shown := fmt.Sprint(err, shape); strings.Contains(shown, "127.0.0.9") {
				t.Errorf("the value of the Secret is shown: %s", shown)
			}
		})
	}
}

func TestResolvedAddressOfAnEndpoint(t *testing.T) {
	t.Parallel()
	t.Run("a loopback address is refused even when its host name is allowed (F-9)", func(t *testing.T) {
		b, thief := newDirectBench(t), newCounter(t)
		b.options.Configured = client.Credentials{}
		b.options.AllowedEndpoints = []string{"localhost"}
		b.restart()
		endpoint := strings.Replace(thief.URL, "127.0.0.1", "localhost", 1) + "/v3"
		err := b.bringUp(newMachine(t, "a", complete(endpoint)))
		if e := fault.Of(err); e == nil || e.Class != fault.Auth || e.Code != fault.CodeEndpointNotAllowed || !strings.Contains(e.Message, "loopback") || !strings.Contains(e.Message, "--allowed-endpoints=") {
			t.Errorf("got %v", err)
		}
		if n := thief.asked.Load(); n != 0 {
			t.Errorf("%d requests were sent to it", n)
		}
	})
	t.Run("a loopback address is allowed for the configured cloud (F-9)", func(t *testing.T) {
		b := newDirectBench(t)
		b.options.AllowedEndpoints = nil
		b.restart()
		b.active(newMachine(t, "a", seedFields()))
	})
}

func TestPasswordFromASecretOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	const namespace = "clouds"
	admin := func(t *testing.T, b *bench, keys map[string]string) {
		secret := &corev1.Secret{Data: map[string][]byte{}}
		secret.Namespace, secret.Name = namespace, "admin"
		for key, text := range keys {
			secret.Data[key] = []byte(text)
		}
		b.options.AllowedNamespaces = []string{namespace}
		b.withReader(newReader(t, secret))
	}
	password := map[string]string{"password": sim.MetaKubePassword}
	from := func(key string) map[string]any { return inSecret(namespace, "admin", key) }
	t.Run("the password is not sent to an endpoint that the Machine's spec sets (F-11)", func(t *testing.T) {
		b, other := newDirectBench(t), newCounter(t)
		admin(t, b, password)
		_, err := b.cloud.Instance(b.ctx, newMachine(t, "a", complete(other.URL).with("password", from("password"))))
		if e := fault.Of(err); e == nil || e.Code != fault.CodeCredentialsMissing || !strings.Contains(e.Message, "names no endpoint") {
			t.Errorf("got %v", err)
		}
		b.pass(time.Minute)
		if n := other.asked.Load(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
	t.Run("the password is sent to the configured cloud (F-11)", func(t *testing.T) {
		b := newDirectBench(t)
		admin(t, b, password)
		b.active(newMachine(t, "a", complete(b.sim.AuthURL()).with("password", from("password"))))
	})
	t.Run("the password is sent to an endpoint that the same Secret sets (F-11)", func(t *testing.T) {
		b := newDirectBench(t)
		b.options.Configured = client.Credentials{}
		admin(t, b, map[string]string{"password": sim.MetaKubePassword, "endpoint": b.sim.AuthURL()})
		b.active(newMachine(t, "a", complete(from("endpoint")).with("password", from("password"))))
	})
}

func TestSpecThatUsesTheConfiguredCloudsCredentials(t *testing.T) {
	t.Parallel()
	b := newDirectBench(t)
	mine := b.projectID()
	other := b.sim.AddProject("other", sim.MetaKubeDomain)
	for _, tt := range []struct {
		name   string
		spec   fields
		passes bool
	}{
		{"may name the configured project by name", fields{"projectName": sim.MetaKubeProject}, true},
		{"may name the configured project in the field tenantName", fields{"tenantName": sim.MetaKubeProject}, true},
		{"may name the configured project by ID", fields{"projectID": mine}, true},
		{"may name the configured project by an ID without dashes", fields{"tenantID": strings.ReplaceAll(mine, "-", "")}, true},
		{"may name the configured user and domain", fields{"username": sim.MetaKubeUser, "domainName": sim.MetaKubeDomain}, true},
		{"may name the configured region", fields{"region": sim.MetaKubeRegion}, true},
		{"may not name another project by name", fields{"projectName": "other"}, false},
		{"may not name another project by ID", fields{"projectID": other}, false},
		{"may not name another user", fields{"username": "admin"}, false},
		{"may not name another domain", fields{"domainName": "elsewhere"}, false},
	} {
		t.Run("a spec "+tt.name+" (F-11)", func(t *testing.T) {
			b.t = t
			spec := seedFields()
			for field, value := range tt.spec {
				spec[field] = value
			}
			err := b.bringUp(newMachine(t, "a", spec))
			if _, shapeErr := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", spec))); (shapeErr == nil) != tt.passes {
				t.Errorf("a template: %v", shapeErr)
			}
			if (err == nil) != tt.passes {
				t.Fatalf("got %v", err)
			}
			if e := fault.Of(err); err != nil && (e.Class != fault.Auth || e.Code != fault.CodeProjectNotAllowed || !strings.Contains(e.Message, "--features=identity-override")) {
				t.Errorf("got %s %s: %v", e.Class, e.Code, err)
			}
		})
	}
	t.Run("a spec may name another project when --features=identity-override is set (F-11)", func(t *testing.T) {
		b := newDirectBench(t)
		b.options.IdentityOverride = true
		b.restart()
		b.sim.AddProject("other", sim.MetaKubeDomain)
		err := b.bringUp(newMachine(t, "a", seedFields().with("projectName", "other")))
		if fault.Of(err) != nil && fault.Of(err).Code == fault.CodeProjectNotAllowed {
			t.Errorf("got %v", err)
		}
	})
}

// projectID returns the ID of the project that the simulated cloud starts with.
func (b *bench) projectID() string {
	b.t.Helper()
	b.synced(newMachine(b.t, "probe", seedFields()))
	scope, _ := b.connectionOf("uid-probe").session.Known()
	return scope.ProjectID
}

package openstack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestNoErrorShowsAValueFromASecretOrAConfigMap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// The cloud or drover refuses each of these values. The message would contain the value if drover did not hide it.
	values := map[string]string{
		"flavor": "hidden-flavor", "image": "hidden-image", "availabilityZone": "hidden-zone", "network": "hidden-network",
		"networks": "hidden-networks", "subnet": "hidden-subnet", "securityGroups": "hidden-group", "floatingIpPool": "hidden-pool",
		"rootDiskSizeGB": "hidden-size", "rootDiskVolumeType": "hidden-type", "serverGroupID": "hidden-servergroup",
		"serverGroup": "hidden-other", "configDrive": "hidden-drive", "disablePortSecurity": "hidden-security", "keyName": "hidden-key",
		"computeAPIVersion": "hidden-version", "region": "hidden-region", "username": "hidden-user", "projectName": "hidden-project",
		"projectID": "hidden-projectid", "domainName": "hidden-domain", "applicationCredentialID": "hidden-appid",
		"identityEndpoint": "http://hidden-host.invalid:5000/v3", "tenantName": "hidden-tenant",
	}
	// Keystone's message does not show which of these values it refuses.
	unnamed := map[string]bool{"projectName": true, "projectID": true, "tenantName": true, "domainName": true}
	lists := map[string]bool{"networks": true, "securityGroups": true}
	for kind, ref := range map[string]func(key string) map[string]any{
		"a Secret": func(key string) map[string]any { return inSecret("kube-system", "values", key) },
		"a ConfigMap": func(key string) map[string]any {
			return map[string]any{"configMapKeyRef": map[string]string{"namespace": "kube-system", "name": "values", "key": key}}
		},
	} {
		b.options.AllowedEndpoints = append(b.options.AllowedEndpoints, "hidden-host.invalid")
		b.withReader(newReader(t, secretOf("values", values), configMapOf("values", values)))
		for field, value := range values {
			t.Run(fmt.Sprintf("no error shows the value of the spec's field %s when it comes from %s (F-10)", field, kind), func(t *testing.T) {
				b.t = t
				spec := complete(b.sim.AuthURL())
				switch field {
				case "rootDiskVolumeType":
					spec["rootDiskSizeGB"] = 30
				case "serverGroup":
					delete(spec, "serverGroupID")
				case "applicationCredentialID":
					spec["applicationCredentialSecret"] = "s3cret"
				case "tenantName", "projectID":
					delete(spec, "projectName")
				case "network", "networks":
					delete(spec, "network")
				}
				spec[field] = ref(field)
				if lists[field] {
					spec[field] = []any{ref(field)}
				}
				err := b.bringUp(newMachine(t, "a", spec))
				if err == nil {
					t.Fatal("it was accepted")
				}
				if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), value) {
					t.Errorf("the value is shown: %v", err)
				}
				if !unnamed[field] && !strings.Contains(err.Error(), "kube-system/values, key "+field) {
					t.Errorf("the reference is not shown: %v", err)
				}
				_, err = b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", spec)))
				if err != nil && strings.Contains(err.Error(), "hidden") {
					t.Errorf("a template shows the value: %v", err)
				}
			})
		}
	}
}

func TestNamesSimilarToTheValueOfASecretAreNotSuggested(t *testing.T) {
	t.Parallel()
	t.Run("no flavor is suggested when an unknown flavor name comes from a Secret (F-10)", func(t *testing.T) {
		b := newBench(t)
		b.withReader(newReader(t, secretOf("values", map[string]string{"flavor": sim.MetaKubeFlavor + "x"})))
		err := b.bringUp(newMachine(t, "a", seedFields().with("flavor", inSecret("kube-system", "values", "flavor"))))
		if fault.Of(err) == nil || fault.Of(err).Code != fault.CodeFlavorNotFound || strings.Contains(err.Error(), sim.MetaKubeFlavor) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCloudErrorsHideTheValueOfASecret(t *testing.T) {
	t.Parallel()
	t.Run("the error shows the Secret's name and key where the cloud's message repeats the value (F-10)", func(t *testing.T) {
		b := newBench(t)
		b.withReader(newReader(t, secretOf("values", map[string]string{"tag": "hidden-tag", "zone": sim.MetaKubeZone})))
		i := b.synced(newMachine(t, "a", seedFields().with("availabilityZone", inSecret("kube-system", "values", "zone")).
			with("tags", []any{inSecret("kube-system", "values", "tag")})))
		b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusBadRequest,
			Body: `{"badRequest":{"code":400,"message":"Tag hidden-tag of ` + sim.MetaKubeZone + ` is too long."}}`})
		_, err := b.make(i)
		if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "hidden-tag") || strings.Contains(err.Error(), sim.MetaKubeZone) ||
			!strings.Contains(err.Error(), "the value of Secret kube-system/values, key tag") {
			t.Errorf("got %v", err)
		}
	})
}

func TestHiddenValuesInATextAreReplaced(t *testing.T) {
	hidden := map[string]string{"30": "(size)", "secret-flavor": "(flavor)", "secret": "(other)", "": "(none)"}
	for name, tc := range map[string]struct{ text, want string }{
		"a hidden number is replaced, but not where it is part of a longer number (F-10)":         {"rootDiskSizeGB is 30; raise it to 1300", "rootDiskSizeGB is (size); raise it to 1300"},
		"where one hidden value is the beginning of another, the longer value is replaced (F-10)": {`flavor "secret-flavor" and secret`, `flavor "(flavor)" and (other)`},
		"a text without hidden values is returned unchanged (F-10)":                               {"none of the values", "none of the values"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := client.Conceal(tc.text, hidden); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

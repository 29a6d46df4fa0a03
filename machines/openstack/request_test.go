package openstack

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/spec"
)

func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func testTag(kind cloud.ResourceKind, n int) state.Tag {
	return state.Tag{Kind: kind, Cluster: "c1", Machine: "u1", N: n}
}

func TestServerRequest(t *testing.T) {
	p := &catalog.Plan{}
	p.Flavor.ID, p.Image.ID = "f1", "i1"
	for name, tc := range map[string]struct {
		spec  spec.Spec
		group string
		want  string
		hints string
	}{
		"when a spec sets only zone and metadata, the request for the server has no other optional field (MC-40)": {spec.Spec{AvailabilityZone: "z", Metadata: map[string]string{"a": "b"}}, "",
			`{"server":{"name":"node-1","flavorRef":"f1","imageRef":"i1","availability_zone":"z","config_drive":false,"user_data":"ZGF0YQ==",
			"networks":[{"port":"p1"},{"port":"p2"}],"metadata":{"a":"b","machine-uid":"u1","drover-cluster-id":"c1"}}}`, ""},
		"the request for a server with all fields has boot volume, key, server group, tags and config drive (MC-40)": {spec.Spec{RootDiskSizeGB: 30, RootDiskVolumeType: "ssd", KeyName: "k", Tags: []string{"t"}, ConfigDrive: true}, "g1",
			`{"server":{"name":"node-1","flavorRef":"f1","imageRef":"","config_drive":true,"user_data":"ZGF0YQ==","key_name":"k","tags":["t"],
			"block_device_mapping_v2":[{"boot_index":0,"source_type":"image","destination_type":"volume","uuid":"i1","volume_size":30,"volume_type":"ssd","delete_on_termination":true}],
			"networks":[{"port":"p1"},{"port":"p2"}],"metadata":{"machine-uid":"u1","drover-cluster-id":"c1"}}}`, `{"os:scheduler_hints":{"group":"g1"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p.ServerGroupID = tc.group
			if p.ServerGroupID != "" {
				p.ServerGroupID = "fe9dcd44-f08a-492a-9e64-4e38e1d51573"
			}
			o, h := serverRequest(testTag(cloud.ResourceServer, 0), "node-1", &tc.spec, p, []string{"p1", "p2"}, []byte("ZGF0YQ=="))
			body, err := o.ToServerCreateMap()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, tc.want), asJSON(t, body)); diff != "" {
				t.Error(diff)
			}
			if (h != nil) != (tc.hints != "") {
				t.Errorf("hints %v", h)
			}
			if h != nil {
				hints, err := h.ToSchedulerHintsMap()
				if err != nil || asJSON(t, hints)["os:scheduler_hints"].(map[string]any)["group"] != p.ServerGroupID {
					t.Errorf("got %v, %v", hints, err)
				}
			}
		})
	}
}

func TestPortRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		plan catalog.Plan
		n    int
		want string
	}{
		"the request for a port in a subnet names the subnet (MC-42)": {catalog.Plan{Ports: []catalog.PlannedPort{{NetworkID: "n1", SubnetID: "s1"}}, SecurityGroups: []string{"g"}}, 0,
			`{"port":{"network_id":"n1","name":"node-1","description":"drover c1 u1 0","fixed_ips":[{"subnet_id":"s1"}],"security_groups":["g"]}}`},
		"the request for a Machine's second port names the second network, and has its own name and owner tag": {catalog.Plan{Ports: []catalog.PlannedPort{{NetworkID: "n1"}, {NetworkID: "n2"}}, SecurityGroups: []string{"g"}}, 1,
			`{"port":{"network_id":"n2","name":"node-1-1","description":"drover c1 u1 1","security_groups":["g"]}}`},
		"the request for a port without port security has no security groups": {catalog.Plan{Ports: []catalog.PlannedPort{{NetworkID: "n1"}}}, 0,
			`{"port":{"network_id":"n1","name":"node-1","description":"drover c1 u1 0","security_groups":[],"port_security_enabled":false}}`},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := portRequest(testTag(cloud.ResourcePort, tc.n), "node-1", &tc.plan).ToPortCreateMap()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, tc.want), asJSON(t, body)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFloatingIPRequest(t *testing.T) {
	t.Run("the request has network, port and owner tag, and no other field (CAPI-27)", func(t *testing.T) {
		body, err := floatingIPRequest(testTag(cloud.ResourceFloatingIP, 0), &catalog.Plan{PoolID: "ext"}, "p1").ToFloatingIPCreateMap()
		want := `{"floatingip":{"floating_network_id":"ext","port_id":"p1","description":"drover c1 u1 0"}}`
		if diff := cmp.Diff(parse(t, want), asJSON(t, body)); diff != "" || err != nil {
			t.Errorf("MC-50: %v\n%s", err, diff)
		}
	})
}

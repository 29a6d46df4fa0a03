package provider

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

func stored(text string) *runtime.RawExtension {
	if text == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: []byte(text)}
}

func TestRecordOfAMachinesResourcesIsMergedIntoTheStoredStatus(t *testing.T) {
	server := &Record{
		HostID: "h", ServerID: "s", Zone: "z", PortIDs: []string{"p1", "p2"}, FloatingIPID: "f", VolumeIDs: []string{"v"}, ProjectID: "p", Region: "r",
	}
	const all = `{"hostID":"h","serverID":"s","zone":"z","portIDs":["p1","p2"],"floatingIPID":"f","volumeIDs":["v"],"projectID":"p","region":"r"}`
	for name, tc := range map[string]struct {
		stored string
		record *Record
		want   string
	}{
		"stores the record when the status has no record":                                             {"", server, all},
		"replaces a stored record that cannot be parsed":                                              {`[]`, server, all},
		"stores project and region when the new record has nothing else and the status has no record": {"", &Record{ProjectID: "p", Region: "r"}, `{"projectID":"p","region":"r"}`},
		"changes only project and region of a stored record when the new record has nothing else":     {all, &Record{ProjectID: "q"}, `{"hostID":"h","serverID":"s","zone":"z","portIDs":["p1","p2"],"floatingIPID":"f","volumeIDs":["v"],"projectID":"q"}`},
		"keeps the volumes of an earlier server and adds those of the new server":                     {`{"serverID":"t","volumeIDs":["u"]}`, &Record{ServerID: "s", VolumeIDs: []string{"v"}}, `{"serverID":"s","volumeIDs":["u","v"]}`},
		"removes the volumes of an earlier server that are gone":                                      {`{"serverID":"t","volumeIDs":["u","w"]}`, &Record{ServerID: "s", VolumeIDs: []string{"v"}, EndedVolumes: []string{"u"}}, `{"serverID":"s","volumeIDs":["v","w"]}`},
		"keeps the stored ports and floating IP when the new record has none":                         {`{"serverID":"s","portIDs":["p"],"floatingIPID":"f"}`, &Record{ServerID: "s", Zone: "z"}, `{"serverID":"s","zone":"z","portIDs":["p"],"floatingIPID":"f"}`},
		"removes zone and host of an earlier server when the record of the new server has neither":    {`{"serverID":"t","zone":"z","hostID":"h"}`, &Record{ServerID: "s"}, `{"serverID":"s"}`},
		"returns the stored record unchanged when only the order of its fields differs":               {`{"zone":"z","serverID":"s"}`, &Record{ServerID: "s", Zone: "z"}, `{"zone":"z","serverID":"s"}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := stored(tc.stored)
			got := tc.record.MergeInto(before)
			if string(got.Raw) != tc.want || (tc.stored == tc.want) != (got == before) {
				t.Errorf("got %s, want %s", got.Raw, tc.want)
			}
		})
	}
}

// formerRecord is the type with which earlier releases of drover wrote the record.
type formerRecord struct {
	HostID       string   `json:"hostID,omitempty"`
	ServerID     string   `json:"serverID,omitempty"`
	Zone         string   `json:"zone,omitempty"`
	PortIDs      []string `json:"portIDs,omitempty"`
	FloatingIPID string   `json:"floatingIPID,omitempty"`
	formerPlace
}

type formerPlace struct {
	VolumeIDs []string `json:"volumeIDs,omitempty"`
	ProjectID string   `json:"projectID,omitempty"`
	Region    string   `json:"region,omitempty"`
}

func TestRecordOfAMachinesResourcesHasTheFormatOfEarlierReleases(t *testing.T) {
	former := formerRecord{"h", "s", "z", []string{"p"}, "f", formerPlace{[]string{"v"}, "p", "r"}}
	raw, err := json.Marshal(former)
	if err != nil {
		t.Fatal(err)
	}
	record := RecordOf(&v1alpha1.Machine{Status: v1alpha1.MachineStatus{ProviderStatus: &runtime.RawExtension{Raw: raw}}})
	if got := record.MergeInto(nil).Raw; string(got) != string(raw) {
		t.Errorf("it is %s, and was %s", got, raw)
	}
}

func TestRecordOfAMachinesResourcesShowsWhetherTheMachineHadAServer(t *testing.T) {
	for text, want := range map[string]cloud.Remembered{
		"":                               {},
		`{"projectID":"p","region":"r"}`: {Place: "p r", BeforeDeletion: "\n\np\nr"},
		`{"serverID":"s","hostID":"h"}`:  {Server: true, HostID: "h", BeforeDeletion: "\n\n\n"},
		`{"volumeIDs":["v","w"],"floatingIPID":"f"}`: {Server: true, AtOnce: "v w", BeforeDeletion: "f\nv w\n\n"},
		`[]`:          {Server: true, BeforeDeletion: "\n\n\n"},
		`{"other":1}`: {Server: true, BeforeDeletion: "\n\n\n"},
	} {
		name := "a Machine with the record '" + text + "', which names no server or other resource, never had a server"
		if want.Server {
			name = "a Machine with the record '" + text + "', which contains something else than a project and a region, is treated as having had a server"
		}
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Machine{Status: v1alpha1.MachineStatus{ProviderStatus: stored(text)}}
			if got := (Provider{}).Remembered(m); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

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

func TestRecordMergesIntoTheStoredStatus(t *testing.T) {
	server := &Record{
		HostID: "h", ServerID: "s", Zone: "z", PortIDs: []string{"p1", "p2"}, FloatingIPID: "f", VolumeIDs: []string{"v"}, ProjectID: "p", Region: "r",
	}
	const all = `{"hostID":"h","serverID":"s","zone":"z","portIDs":["p1","p2"],"floatingIPID":"f","volumeIDs":["v"],"projectID":"p","region":"r"}`
	for name, tc := range map[string]struct {
		stored string
		record *Record
		want   string
	}{
		"stores a first record":                                                      {"", server, all},
		"replaces a record that cannot be parsed":                                    {`[]`, server, all},
		"stores a place when nothing else is recorded":                               {"", &Record{ProjectID: "p", Region: "r"}, `{"projectID":"p","region":"r"}`},
		"changes only the place when a place is recorded":                            {all, &Record{ProjectID: "q"}, `{"hostID":"h","serverID":"s","zone":"z","portIDs":["p1","p2"],"floatingIPID":"f","volumeIDs":["v"],"projectID":"q"}`},
		"keeps volumes of an earlier server":                                         {`{"serverID":"t","volumeIDs":["u"]}`, &Record{ServerID: "s", VolumeIDs: []string{"v"}}, `{"serverID":"s","volumeIDs":["u","v"]}`},
		"keeps ports and floating IP of the stored record while no others are known": {`{"serverID":"s","portIDs":["p"],"floatingIPID":"f"}`, &Record{ServerID: "s", Zone: "z"}, `{"serverID":"s","zone":"z","portIDs":["p"],"floatingIPID":"f"}`},
		"replaces zone and host of another server":                                   {`{"serverID":"t","zone":"z","hostID":"h"}`, &Record{ServerID: "s"}, `{"serverID":"s"}`},
		"returns the stored record when the content is equal in another order":       {`{"zone":"z","serverID":"s"}`, &Record{ServerID: "s", Zone: "z"}, `{"zone":"z","serverID":"s"}`},
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

// formerRecord is the record's format in releases before package cloud had records.
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

func TestRecordHasTheFormatOfFormerReleases(t *testing.T) {
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

func TestRecordShowsWhetherTheMachineHadAServer(t *testing.T) {
	for text, want := range map[string]cloud.Remembered{
		"":                               {},
		`{"projectID":"p","region":"r"}`: {BeforeDeletion: "\n\np\nr"},
		`{"serverID":"s","hostID":"h"}`:  {Server: true, HostID: "h", BeforeDeletion: "\n\n\n"},
		`{"volumeIDs":["v","w"],"floatingIPID":"f"}`: {Server: true, AtOnce: "v w", BeforeDeletion: "f\nv w\n\n"},
		`[]`:          {Server: true, BeforeDeletion: "\n\n\n"},
		`{"other":1}`: {Server: true, BeforeDeletion: "\n\n\n"},
	} {
		name := "no server is remembered for the record '" + text + "'"
		if want.Server {
			name = "a server is remembered for the record '" + text + "'"
		}
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Machine{Status: v1alpha1.MachineStatus{ProviderStatus: stored(text)}}
			if got := (Provider{}).Remembered(m); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

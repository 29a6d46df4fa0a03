package adoption

import (
	"strings"
	"testing"
)

func TestTheAdoptionReportOmitsMachinesThatDroverWouldNotChangeUnlessAllAreRequested(t *testing.T) {
	r := Report{
		Entries: []Entry{
			{Kind: "Machine", Namespace: "ns", Name: "kept", Outcome: Kept, Node: "n"},
			{Kind: "Machine", Namespace: "ns", Name: "rolled", Outcome: Rolled, Why: "a template"},
		},
		Findings: []Finding{{Subject: "webhook", Message: "it is dead", Remedy: "kubectl delete it"}},
	}
	r.Sort()
	var text, all, document strings.Builder
	if err := r.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteText(&all, true); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteJSON(&document); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "ns/kept") || !strings.Contains(all.String(), "ns/kept") || !strings.Contains(text.String(), "Machines: 1 rolled, 1 kept") ||
		!strings.Contains(text.String(), "kubectl delete it") || !strings.Contains(text.String(), "would be rolled or deleted: see above") {
		t.Errorf("WriteText(false) wrote\n%s\nWriteText(true) wrote\n%s", text.String(), all.String())
	}
	if !strings.Contains(document.String(), `"disruptive": true`) || !r.Disruptive() {
		t.Errorf("WriteJSON() wrote %s", document.String())
	}
	r.Entries = r.Entries[1:]
	if r.Disruptive() {
		t.Error("Disruptive() = true for a Machine that is kept, want false")
	}
}

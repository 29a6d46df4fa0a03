package inventory

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestJudgeOrphans(t *testing.T) {
	old, young := noon.Add(-OrphanAge), noon.Add(-time.Minute)
	server := func(id, machine string) Resource {
		return Resource{Kind: "server", ID: id, Machine: types.UID(machine), Since: old}
	}
	living := map[types.UID]bool{"a": true}
	many := []Resource{server("1", "x"), server("2", "x"), server("3", "x"), server("4", "x")}
	for name, tc := range map[string]struct {
		marked  []Resource
		told    bool
		orphans int
		reports bool
	}{
		"what has a Machine is no orphan":               {[]Resource{server("1", "a")}, false, 0, false},
		"what has none is one":                          {[]Resource{server("1", "x"), {Kind: "port", ID: "2", Machine: "x", Since: old}}, false, 2, false},
		"what is young is none yet":                     {[]Resource{{Kind: "port", ID: "2", Machine: "x", Since: young}}, false, 0, false},
		"too many servers without a Machine: reports":   {many, false, 4, true},
		"too many, and a person has said so: collected": {many, true, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := JudgeOrphans(tc.marked, living, noon, tc.told)
			if len(v.Orphans) != tc.orphans || (v.ReportOnly != "") != tc.reports {
				t.Fatalf("got %+v", v)
			}
		})
	}
}
